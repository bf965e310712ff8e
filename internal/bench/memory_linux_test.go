package bench

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestProcessMemory(t *testing.T) {
	before, err := processMemory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const size = 32 << 20
	// Memory that the runtime and the race detector know nothing of.
	block, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(block)
	for i := 0; i < size; i += 1 << 10 {
		block[i] = 1 // only what is touched is in memory
	}
	after, err := processMemory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	each := after.each(before, 2)
	for name, grown := range map[string]float64{"resident": each.RSS, "proportional": each.PSS, "anonymous": each.Anonymous} {
		if grown < size/2*0.9 || grown > size/2*1.5 {
			t.Errorf("%s grew by %.0f bytes for each of 2, want about %d", name, grown, size/2)
		}
	}
	if _, err := processMemory(1 << 22); err == nil { // above the largest process id
		t.Error("the memory of a process that does not exist was read")
	}
}
