package interop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Allowed is one line of differences.txt: a place where a result through Parley
// may differ from the direct one.
type Allowed struct {
	Line   int
	Pair   string // pattern for the pair's name
	Place  string // pattern for the place, /scenario/steps/…; /** at its end is everything below
	Reason string
}

// ReadAllowed reads a list of allowed differences. Each line has a pattern for
// the pair, a pattern for the place, and the reason, separated by spaces;
// patterns are those of path.Match. Empty lines and lines that begin with #
// say nothing.
func ReadAllowed(r io.Reader) ([]Allowed, error) {
	var list []Allowed
	lines := bufio.NewScanner(r)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("line %d: want PAIR PLACE REASON, got %q", number, line)
		}
		for _, pattern := range fields[:2] {
			if _, err := path.Match(pattern, ""); err != nil {
				return nil, fmt.Errorf("line %d: %q: %w", number, pattern, err)
			}
		}
		list = append(list, Allowed{number, fields[0], fields[1], strings.Join(fields[2:], " ")})
	}
	return list, lines.Err()
}

// Covers says whether the line allows a difference at the place.
func (a Allowed) Covers(pair, place string) bool {
	// The patterns were checked when they were read, here and below.
	pattern := a.Place
	if above, ok := strings.CutSuffix(pattern, "/**"); ok {
		depth := strings.Count(above, "/") + 1
		parts := strings.Split(place, "/")
		if len(parts) <= depth {
			return false
		}
		pattern, place = above, strings.Join(parts[:depth], "/")
	}
	fits, _ := path.Match(pattern, place)
	return fits && a.coversPair(pair)
}

func (a Allowed) coversPair(pair string) bool {
	fits, _ := path.Match(a.Pair, pair)
	return fits
}

// Difference is one place where two documents of a scenario disagree.
type Difference struct {
	Place  string // as a JSON pointer that begins with the scenario
	Direct string // JSON, or empty where there is nothing
	Parley string
}

func (d Difference) String() string {
	return fmt.Sprintf("%s\n  direct:         %s\n  through Parley: %s", d.Place, d.Direct, d.Parley)
}

// Compare lists where a result through Parley differs from the direct one, in
// the order of places.
func Compare(direct, parley Document) ([]Difference, error) {
	left, err := leaves(direct)
	if err != nil {
		return nil, err
	}
	right, err := leaves(parley)
	if err != nil {
		return nil, err
	}
	places := maps.Clone(left)
	maps.Copy(places, right)
	var found []Difference
	for _, place := range slices.Sorted(maps.Keys(places)) {
		if settled.Replace(left[place]) != settled.Replace(right[place]) {
			found = append(found, Difference{place, left[place], right[place]})
		}
	}
	return found, nil
}

// settled takes out of a text what hangs on the moment alone: the Go SDK's agent
// tells how far a cancellation came that is too late, and that differs from run
// to run.
var settled = strings.NewReplacer("cancelation failed: canceler setup failed:", "cancelation failed: setup failed:")

// leaves is every scalar, empty object and empty array of a document by its
// place.
func leaves(d Document) (map[string]string, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	found := map[string]string{}
	return found, collect(found, "/"+d.Scenario, tree)
}

func collect(found map[string]string, place string, node any) error {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
			if err := collect(found, place+"/"+escaped, value); err != nil {
				return err
			}
		}
		if len(node) > 0 {
			return nil
		}
	case []any:
		for i, value := range node {
			if err := collect(found, place+"/"+strconv.Itoa(i), value); err != nil {
				return err
			}
		}
		if len(node) > 0 {
			return nil
		}
	}
	text, err := json.Marshal(node)
	found[place] = string(text)
	return err
}
