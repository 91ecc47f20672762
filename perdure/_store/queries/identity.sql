select generation, version, final from perdure.ident where lifecycle = $1 and id = $2
