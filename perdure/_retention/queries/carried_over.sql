delete from perdure.carried_transition c
where not exists (select from perdure.ident i where i.lifecycle = c.lifecycle and i.id = c.id and i.final is null)
    and not exists (select from perdure.transition t where t.lifecycle = c.lifecycle and t.id = c.id)
