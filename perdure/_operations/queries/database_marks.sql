select mark, scope, namespace, namespace_id from perdure.database
