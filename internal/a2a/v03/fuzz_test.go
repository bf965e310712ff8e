package v03_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
)

// FuzzTranslate gives arbitrary bytes to every translation. Nothing may panic, and
// what one direction makes, the other must read.
func FuzzTranslate(f *testing.F) {
	for seed := range uint64(8) {
		for _, tr := range translations() {
			for _, d := range tr.dialects {
				in, err := json.Marshal(tr.make(gen{rand.New(rand.NewPCG(seed, 2))}))
				if err != nil {
					f.Fatal(err)
				}
				old, err := tr.from(d, in)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(in)
				f.Add(old)
			}
		}
	}
	f.Add([]byte(`{"kind":"task","id":"t","status":{"state":"working"},"artifacts":[{"artifactId":"a","parts":[]}]}`))
	f.Add([]byte(`{"message":{"messageId":"m","role":1,"content":[{"data":{"data":{"value":1}},"metadata":{"data_part_compat":true}}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for name, tr := range translations() {
			for _, d := range tr.dialects {
				v1, err := tr.to(d, raw)
				if err == nil {
					if _, err := tr.from(d, v1); err != nil {
						t.Errorf("%s %s: %v\n0.3 %s\n1.0 %s", name, d, err, raw, v1)
					}
				}
				old, err := tr.from(d, raw)
				if err != nil || len(old) == 0 {
					continue
				}
				back, err := tr.to(d, old)
				if err != nil {
					continue // what 0.3 demands beyond 1.0, and 1.0 is checked elsewhere
				}
				again, err := tr.from(d, back)
				if err != nil {
					t.Errorf("%s %s: %v\n1.0 %s\n0.3 %s\nback %s", name, d, err, raw, old, back)
				} else if back2, err := tr.to(d, again); err != nil || !same(t, back, back2) {
					t.Errorf("%s %s: %v\n1.0 %s\n0.3 %s\nback  %s\nagain %s", name, d, err, raw, old, back, back2)
				}
			}
		}
	})
}
