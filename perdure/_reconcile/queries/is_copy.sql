select copied_at is not null from perdure.database
