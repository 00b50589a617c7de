package webhookpub_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
)

// serveDNS answers queries on a stream (RFC 1035, section 4.2.2) until it is closed.
func serveDNS(conn net.Conn, answer func(name string) []netip.Addr) {
	defer conn.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		reply := replyTo(query, answer)
		binary.BigEndian.PutUint16(size[:], uint16(len(reply)))
		if _, err := conn.Write(append(size[:], reply...)); err != nil {
			return
		}
	}
}

func replyTo(query []byte, answer func(name string) []netip.Addr) []byte {
	const header, typeA = 12, 1
	var labels []string
	end := header
	for query[end] != 0 {
		labels = append(labels, string(query[end+1:end+1+int(query[end])]))
		end += 1 + int(query[end])
	}
	kind := binary.BigEndian.Uint16(query[end+1:])
	question := query[header : end+5]
	var addresses []netip.Addr
	if kind == typeA {
		addresses = answer(strings.Join(labels, "."))
	}
	reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, byte(len(addresses)), 0, 0, 0, 0}, question...)
	for _, a := range addresses {
		ip := a.As4()
		// A pointer to the question's name, type A, class IN, no time to live, four bytes.
		reply = append(reply, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4)
		reply = append(reply, ip[:]...)
	}
	return reply
}
