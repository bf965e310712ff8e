package interop

import (
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Way is how a client reaches an agent.
type Way string

// The ways of the matrix.
const (
	Direct  Way = "direct"
	Through Way = "through"
)

// Note says how the outcome of some cells differs from what the agent's script
// says, and why: it rewrites what is expected there. So it allows this one
// difference and no other.
type Note struct {
	Why    string `yaml:"why"`
	Client string `yaml:"client"` // patterns of endpoints, separated by spaces; all if empty
	Agent  string `yaml:"agent"`
	Way    Way    `yaml:"way"` // both if empty
	At     string `yaml:"at"`  // pattern of scenario/step, steps counted from 0
	From   string `yaml:"from"`
	To     string `yaml:"to"`

	from *regexp.Regexp
}

// ReadNotes reads a list of notes.
func ReadNotes(r io.Reader) ([]Note, error) {
	var notes []Note
	if err := yaml.NewDecoder(r, yaml.Strict()).Decode(&notes); err != nil {
		return nil, err
	}
	for i := range notes {
		n := &notes[i]
		if n.Why == "" || n.At == "" || n.From == "" {
			return nil, fmt.Errorf("note %d: why, at and from are needed", i+1)
		}
		var err error
		if n.from, err = regexp.Compile(n.From); err != nil {
			return nil, fmt.Errorf("note %d: from: %w", i+1, err)
		}
		for _, pattern := range strings.Fields(n.Client + " " + n.Agent + " " + n.At) {
			if _, err := path.Match(pattern, ""); err != nil {
				return nil, fmt.Errorf("note %d: %q: %w", i+1, pattern, err)
			}
		}
	}
	return notes, nil
}

// Told is what one run of a client tells: the lines of each scenario.
type Told map[string][]string

// Expect rewrites what is expected of a cell by the notes, in their order. It
// returns the places of the notes that changed something.
func Expect(want Told, notes []Note, cell Cell, way Way) (Told, []int) {
	rewritten := Told{}
	used := map[int]bool{}
	for scenario, lines := range want {
		for step, line := range lines {
			at := fmt.Sprintf("%s/%d", scenario, step)
			for i, n := range notes {
				if !n.covers(cell, way, at) {
					continue
				}
				if changed := n.from.ReplaceAllString(line, n.To); changed != line {
					line, used[i] = changed, true
				}
			}
			rewritten[scenario] = append(rewritten[scenario], line)
		}
	}
	var places []int
	for i := range notes {
		if used[i] {
			places = append(places, i)
		}
	}
	return rewritten, places
}

func (n Note) covers(cell Cell, way Way, at string) bool {
	return (n.Way == "" || n.Way == way) && fits(n.Client, cell.Client.String()) && fits(n.Agent, cell.Agent.String()) && fits(n.At, at)
}

// fits says whether one of the patterns matches, or there is none.
func fits(patterns, name string) bool {
	if patterns == "" {
		return true
	}
	return slices.ContainsFunc(strings.Fields(patterns), func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // the patterns were checked when they were read
		return ok
	})
}
