package dedup

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/semel-dev/semel/store"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// RecordOf tells a record from another one that has its place in a log that was made again or cut:
// by its time, the sizes of its key and body, and a checksum of both. It follows from
// the record alone, and it is not an identity: two records may have the same.
func RecordOf(m Message) store.ID {
	var id store.ID
	binary.BigEndian.PutUint64(id[0:], uint64(m.Position.Time.UnixNano()))
	binary.BigEndian.PutUint32(id[8:], crc32.Update(crc32.Checksum(m.Key, castagnoli), castagnoli, m.Body))
	binary.BigEndian.PutUint16(id[12:], uint16(len(m.Key)))
	binary.BigEndian.PutUint16(id[14:], uint16(len(m.Body)))
	return id
}
