-- Returns no row if another worker exchanges the mark now.
select true from perdure.database for update skip locked
