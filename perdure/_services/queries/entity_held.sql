-- Whether another session holds the row of the open entity $1, $2. If none does, this one locks it until the transaction ends.
select exists (select from perdure.entity where lifecycle = $1 and id = $2)
    and not exists (select from perdure.entity where lifecycle = $1 and id = $2 for no key update skip locked)
