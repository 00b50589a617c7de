package pgsql

// An event's transaction has its number (xid) before the event has its own (seq): the
// condition, which is always true, is looked at before the first row is made. Relays rely
// on it.
//
// Many events are one array per column. The rows leave unnest in the arrays' order, and
// are numbered in that order.
const (
	// AppendOne writes one event: slot, id, destination, topic, ordering key, type, payload, headers
	// as [EncodeHeaders] makes them.
	AppendOne = `insert into {schema}.outbox (slot, id, destination, aggregatetype, aggregateid, type, payload, headers)
select $1::smallint, $2::uuid, $3::text, $4::text, $5::bytea, $6::text, $7::bytea, $8::bytea
where pg_current_xact_id() is not null`

	// AppendMany writes many: an array for each of those columns.
	AppendMany = `insert into {schema}.outbox (slot, id, destination, aggregatetype, aggregateid, type, payload, headers)
select e.slot, e.id, e.destination, e.topic, e.key, e.type, e.payload, e.headers
from unnest($1::smallint[], $2::uuid[], $3::text[], $4::text[], $5::bytea[], $6::text[], $7::bytea[], $8::bytea[])
  as e (slot, id, destination, topic, key, type, payload, headers)
where pg_current_xact_id() is not null`
)
