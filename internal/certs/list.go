package certs

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"sync"
	"time"
)

// clockSkew is how far in the future a list may begin: authorities' clocks are
// not the mesh's.
const clockSkew = 5 * time.Minute

// list is one revocation list.
type list struct {
	file       string
	rawIssuer  []byte
	thisUpdate time.Time
	nextUpdate time.Time // zero: it says nothing, and counts as out of date
	serials    map[string]struct{}
	parsed     *x509.RevocationList // without its entries, to check signatures by

	mu     sync.Mutex
	signed map[[32]byte]bool // by SHA-256 of the issuer's certificate; guarded by mu
}

// Extensions of lists that are partial: which certificates such a list is about
// cannot be told without understanding them.
var partial = []asn1.ObjectIdentifier{
	{2, 5, 29, 27}, // delta list
	{2, 5, 29, 28}, // of some distribution point, or of other issuers too
}

// readLists reads the revocation lists of one file: one in DER, or any number in
// PEM.
func readLists(file string) ([]*list, error) {
	raw, err := readFile(file, maxList)
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(raw, []byte("-----BEGIN")) {
		l, err := parseList(file, raw)
		if err != nil {
			return nil, err
		}
		return []*list{l}, nil
	}
	var all []*list
	for {
		var block *pem.Block
		if block, raw = pem.Decode(raw); block == nil {
			break
		}
		if block.Type != "X509 CRL" {
			return nil, fmt.Errorf("%s: holds a %q, where revocation lists (X509 CRL) are expected", file, block.Type)
		}
		l, err := parseList(file, block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	if len(all) == 0 || len(bytes.TrimSpace(raw)) > 0 {
		return nil, fmt.Errorf("%s: not a whole revocation list in PEM form", file)
	}
	return all, nil
}

func parseList(file string, der []byte) (*list, error) {
	parsed, err := x509.ParseRevocationList(der)
	if err != nil {
		return nil, fmt.Errorf("%s: not a revocation list: %w", file, err)
	}
	for _, ext := range parsed.Extensions {
		for _, id := range partial {
			if ext.Id.Equal(id) {
				return nil, fmt.Errorf("%s: a delta or partitioned revocation list is not understood: use the authority's full list", file)
			}
		}
		if ext.Critical {
			return nil, fmt.Errorf("%s: the list has the critical extension %s, which is not understood", file, ext.Id)
		}
	}
	l := &list{
		file: file, rawIssuer: parsed.RawIssuer, thisUpdate: parsed.ThisUpdate, nextUpdate: parsed.NextUpdate,
		serials: make(map[string]struct{}, len(parsed.RevokedCertificateEntries)), signed: map[[32]byte]bool{},
	}
	for _, e := range parsed.RevokedCertificateEntries {
		for _, ext := range e.Extensions {
			if ext.Critical {
				return nil, fmt.Errorf("%s: an entry of the list has the critical extension %s, which is not understood", file, ext.Id)
			}
		}
		l.serials[string(e.SerialNumber.Bytes())] = struct{}{}
	}
	parsed.RevokedCertificateEntries = nil
	l.parsed = parsed
	return l, nil
}

// from reports whether the list is the issuer's: of its name, and signed with
// its key. The issuer is one that a chain to a root has proven, so that there
// are few of them.
func (l *list) from(issuer *x509.Certificate) bool {
	if !bytes.Equal(l.rawIssuer, issuer.RawSubject) {
		return false
	}
	key := sha256.Sum256(issuer.Raw)
	l.mu.Lock()
	defer l.mu.Unlock()
	signed, known := l.signed[key]
	if !known {
		signed = l.parsed.CheckSignatureFrom(issuer) == nil
		l.signed[key] = signed
	}
	return signed
}

// current reports whether the list may be relied on at now.
func (l *list) current(now time.Time) bool {
	return !now.Before(l.thisUpdate.Add(-clockSkew)) && now.Before(l.nextUpdate)
}

func (l *list) holds(serial *big.Int) bool {
	_, held := l.serials[string(serial.Bytes())]
	return held
}
