package netguardtest

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
)

// DNS numbers, from RFC 1035 and RFC 3596.
const (
	typeA, typeAAAA = 1, 28
	classIN         = 1
	headerLength    = 12
	flagsAnswer     = 0x8180 // response, recursion desired and available
	codeNameError   = 3
	namePointer     = 0xc000 | headerLength // "the name that stands right after the header"
)

// dialDNS gives the resolver a connection to the table instead of a name
// server. The resolver speaks DNS over TCP on connections that carry no packets.
func (r *Recorder) dialDNS(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		defer server.Close() // ends when the resolver closes its side
		_ = r.serveDNS(server)
	}()
	return client, nil
}

func (r *Recorder) serveDNS(conn io.ReadWriter) error {
	for {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return err
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return err
		}
		reply, err := r.answer(query)
		if err != nil {
			return err
		}
		framed := binary.BigEndian.AppendUint16(nil, uint16(len(reply)))
		if _, err := conn.Write(append(framed, reply...)); err != nil {
			return err
		}
	}
}

// answer builds the response to a query with one question.
func (r *Recorder) answer(query []byte) ([]byte, error) {
	host, end, err := questionName(query)
	if err != nil {
		return nil, err
	}
	kind := binary.BigEndian.Uint16(query[end:])
	addrs, known := r.lookup(host, kind)

	reply := append([]byte(nil), query[:end+4]...) // header, name, type, class
	flags := uint16(flagsAnswer)
	if !known {
		flags |= codeNameError
	}
	binary.BigEndian.PutUint16(reply[2:], flags)
	binary.BigEndian.PutUint16(reply[6:], uint16(len(addrs)))
	binary.BigEndian.PutUint32(reply[8:], 0) // no authority, no additional records
	for _, addr := range addrs {
		reply = binary.BigEndian.AppendUint16(reply, namePointer)
		reply = binary.BigEndian.AppendUint16(reply, kind)
		reply = binary.BigEndian.AppendUint16(reply, classIN)
		reply = binary.BigEndian.AppendUint32(reply, 0) // never cached
		raw := addr.AsSlice()
		reply = binary.BigEndian.AppendUint16(reply, uint16(len(raw)))
		reply = append(reply, raw...)
	}
	return reply, nil
}

// questionName reads the name in the question; end is where its type stands.
func questionName(query []byte) (name string, end int, err error) {
	errShort := errors.New("netguardtest: a DNS query is cut short")
	var labels []string
	for end = headerLength; end < len(query); {
		length := int(query[end])
		end++
		if length == 0 {
			if end+4 > len(query) {
				return "", 0, errShort
			}
			return strings.Join(labels, "."), end, nil
		}
		if end+length > len(query) {
			return "", 0, errShort
		}
		labels = append(labels, string(query[end:end+length]))
		end += length
	}
	return "", 0, errShort
}

// lookup takes the next answer for a name, counted apart for each kind of
// question because the resolver asks both at once.
func (r *Recorder) lookup(host string, kind uint16) (addrs []netip.Addr, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answers, known := r.answers[host]
	if !known {
		return nil, false
	}
	if r.asked == nil {
		r.asked = map[question]int{}
	}
	q := question{host, kind}
	answer := answers[min(r.asked[q], len(answers)-1)]
	r.asked[q]++
	for _, addr := range answer {
		if addr.Is4() == (kind == typeA) {
			addrs = append(addrs, addr)
		}
	}
	return addrs, true
}

type question struct {
	host string
	kind uint16
}
