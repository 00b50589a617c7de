package store

// Header is one name and value of a message. Names are compared byte by byte, as
// Kafka and NATS do; a name may occur several times.
type Header struct {
	Key   string
	Value []byte
}
