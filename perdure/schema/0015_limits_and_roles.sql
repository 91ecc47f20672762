-- A worker does not own the schema: what needs ownership is done by a function that runs with the rights of the owner.

-- Makes the partitions of this month and of the months to come, with the rights of the owner of the schema.
alter function perdure.make_months(int) security definer;
