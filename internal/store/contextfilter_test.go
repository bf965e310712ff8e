package store

import (
	"math/rand/v2"
	"testing"
)

func TestContextFilter(t *testing.T) {
	f := newContextFilter()
	random := rand.New(rand.NewPCG(1, 2))
	const held = 200_000
	keys := make([]int64, held)
	for i := range keys {
		keys[i] = int64(random.Uint64())
		f.add(keys[i])
	}
	for _, key := range keys {
		if !f.mayHold(key) {
			t.Fatalf("key %d was added and is said to be absent", key)
		}
	}
	alarms := 0
	for range held {
		if f.mayHold(int64(random.Uint64())) {
			alarms++
		}
	}
	if alarms > held/1000 {
		t.Errorf("%d false alarms of %d, want under 0.1 %% at this fill", alarms, held)
	}
}
