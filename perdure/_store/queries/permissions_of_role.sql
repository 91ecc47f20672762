select kind, lifecycle, tenant from perdure.permission where role = $1 and kind <> $2
