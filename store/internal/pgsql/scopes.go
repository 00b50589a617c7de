package pgsql

// Scopes are interned by looking before inserting: an insert that conflicts uses up a number of
// the sequence, and the name is nearly always there.
const (
	// TablesVersion reads the version of the tables.
	TablesVersion = `select coalesce(max(version), 0) from {schema}.migrations`

	// FindScope reads the scope of a name, and whether it keeps marks as long: name, milliseconds or null.
	FindScope = `select id, keep_ms is not distinct from $2::bigint from {schema}.scopes where name = $1`

	// KeepScope changes how long a scope keeps its marks: scope, milliseconds or null.
	KeepScope = `update {schema}.scopes set keep_ms = $2::bigint where id = $1`

	// AddScope adds a name, unless somebody else has: name, milliseconds or null.
	AddScope = `insert into {schema}.scopes (name, keep_ms) values ($1, $2::bigint) on conflict (name) do nothing`
)
