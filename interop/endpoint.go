package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// Endpoint is one end of a call in the matrix: an SDK and a binding that it
// speaks as a client, or serves as an agent.
type Endpoint struct {
	SDK     SDK
	Binding Binding
}

// String is the endpoint's name in notes and in the names of agents at the mesh.
func (e Endpoint) String() string { return string(e.SDK) + "/" + bindingWords[e.Binding] }

var bindingWords = map[Binding]string{JSONRPC: "jsonrpc", HTTPJSON: "rest", GRPC: "grpc"}

// release says where an SDK's version is pinned.
type release struct {
	sdk      SDK
	title    string // in pages
	module   string // as its registry names it
	protocol string // version of A2A
	file     string // that pins it, from the root of the repository
	pin      string // what stands around the version there, a pattern with one group
	bindings []Binding
}

var everyBinding = []Binding{JSONRPC, HTTPJSON, GRPC}

// releases are the SDKs of the matrix. The Go SDK of 0.3 has no HTTP+JSON.
var releases = []release{
	{Go, "Go", "github.com/a2aproject/a2a-go/v2", "1.0", "go.mod", `a2a-go/v2 v(\S+)`, everyBinding},
	{JavaScript, "JavaScript", "@a2a-js/sdk", "1.0", "interop/js/package-lock.json", `"@a2a-js/sdk": "(\S+)"`, everyBinding},
	{Python, "Python", "a2a-sdk", "1.0", "interop/python/requirements.txt", `(?m)^a2a-sdk==(\S+)`, everyBinding},
	{Go03, "Go", "github.com/a2aproject/a2a-go", "0.3", "go.mod", `a2a-go v(\S+)`, []Binding{JSONRPC, GRPC}},
	{JavaScript03, "JavaScript", "@a2a-js/sdk", "0.3", "interop/js03/package-lock.json", `"@a2a-js/sdk": "(\S+)"`, everyBinding},
	{Python03, "Python", "a2a-sdk", "0.3", "interop/python03/requirements.txt", `(?m)^a2a-sdk==(\S+)`, everyBinding},
}

// version reads the SDK's version from its lock file.
func (r release) version(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, r.file))
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(r.pin).FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("%s: no version of %s", r.file, r.module)
	}
	return string(found[1]), nil
}

// releaseOf is the SDK's entry in releases.
func releaseOf(sdk SDK) release {
	for _, r := range releases {
		if r.sdk == sdk {
			return r
		}
	}
	panic("no release of " + string(sdk))
}

// Endpoints is every SDK with every binding it has, in the order of the matrix.
func Endpoints() []Endpoint {
	var all []Endpoint
	for _, r := range releases {
		for _, b := range r.bindings {
			all = append(all, Endpoint{r.sdk, b})
		}
	}
	return all
}

// Cell is one client with one agent.
type Cell struct{ Client, Agent Endpoint }

// Alone says whether the two can speak with each other without Parley.
func (c Cell) Alone() bool {
	return c.Client.Binding == c.Agent.Binding && releaseOf(c.Client.SDK).protocol == releaseOf(c.Agent.SDK).protocol
}

// Cells is every client with every agent, row by row.
func Cells() []Cell {
	var all []Cell
	for _, client := range Endpoints() {
		for _, agent := range Endpoints() {
			all = append(all, Cell{client, agent})
		}
	}
	return all
}
