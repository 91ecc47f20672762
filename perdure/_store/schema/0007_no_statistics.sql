-- The receipt and the look-up hint of an effect that changed after its entity had ended: data of the app, like those in `effect`.
alter table perdure.transition alter column effect set statistics 0;
alter table perdure.carried_transition alter column effect set statistics 0;
