package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/parley-mesh/parley/internal/apply"
	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

const (
	// maxApplyBody is the largest set of documents, in bytes.
	maxApplyBody = 8 << 20
	// applyTimeout is how long a plan may take with its looks at agents.
	applyTimeout = 5 * time.Minute
	// applyPath takes documents, relative to Prefix.
	applyPath = "/apply"
	// schemasPath serves the schemas of documents, relative to Prefix.
	schemasPath = "/schemas/"
)

// Applier makes the mesh hold what documents declare; see apply.Engine.
type Applier interface {
	Apply(ctx context.Context, req apply.Request) (*apply.Plan, error)
}

// ApplyRequest asks that the mesh hold what documents declare.
type ApplyRequest struct {
	Set       string            `json:"set,omitempty" doc:"Names the documents as one whole; without it, default."`
	Prune     bool              `json:"prune,omitempty" doc:"Remove what the set created and declares no more."`
	DryRun    bool              `json:"dryRun,omitempty" doc:"Make the plan and carry nothing out."`
	Documents []json.RawMessage `json:"documents" nullable:"false" doc:"Each as the schema of its kind below /api/v1/schemas/ describes it."`
	Secrets   []DocumentSecret  `json:"secrets,omitempty" nullable:"false" doc:"What the documents of kind Credential refer to."`
}

// DocumentSecret is what a document of kind Credential refers to.
type DocumentSecret struct {
	Document    int             `json:"document" doc:"Index of the document."`
	Secret      string          `json:"secret,omitempty" doc:"Kept sealed and never given back."`
	Certificate *NewCertificate `json:"certificate,omitempty"`
}

func (s *Server) applyRoutes() {
	op := operation("apply", "POST", applyPath, "Make the mesh hold what documents declare: all of it, in one transaction, or nothing", 200)
	op.MaxBodyBytes = maxApplyBody + 1
	route(s, op, func(ctx context.Context, in *struct{ Body ApplyRequest }) (*entity[apply.Plan], error) {
		req, err := in.Body.decode()
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, applyTimeout)
		defer cancel()
		plan, err := s.opts.Apply.Apply(ctx, req)
		if err != nil {
			return nil, err
		}
		return &entity[apply.Plan]{Body: *plan}, nil
	})
	s.mux.HandleFunc("GET "+Prefix+schemasPath+"{kind}", s.serveSchema)
}

// decode reads the documents.
func (r *ApplyRequest) decode() (apply.Request, error) {
	req := apply.Request{Set: r.Set, Prune: r.Prune, DryRun: r.DryRun}
	var wrong []parley.Field
	for i, raw := range r.Documents {
		d, problems := manifest.DecodeJSON(raw)
		for _, p := range problems {
			wrong = append(wrong, parley.Field{Path: fmt.Sprintf("/documents/%d%s", i, p.Pointer), Problem: p.Problem, Fix: p.Fix})
		}
		req.Documents = append(req.Documents, apply.Input{Document: d})
	}
	for i, s := range r.Secrets {
		if s.Document < 0 || s.Document >= len(req.Documents) {
			wrong = append(wrong, parley.Field{Path: fmt.Sprintf("/secrets/%d/document", i), Problem: "there is no such document", Fix: "give the index of a Credential"})
			continue
		}
		if d := &req.Documents[s.Document]; d.Document != nil && d.Kind != manifest.KindCredential {
			wrong = append(wrong, parley.Field{Path: fmt.Sprintf("/secrets/%d/document", i), Problem: fmt.Sprintf("document %d is of kind %s", s.Document, d.Kind), Fix: "give the index of a Credential"})
		} else {
			d.Secret = s.Secret
			if x := s.Certificate; x != nil {
				d.Certificate = &registry.ClientCertificate{Chain: x.Chain, Key: x.Key, CA: x.CA}
			}
		}
	}
	if len(wrong) > 0 {
		return req, &parley.Error{Op: "control.apply", Kind: parley.Invalid, Message: "the documents are not valid", Fields: wrong}
	}
	return req, nil
}

// serveSchema tells what documents of a kind look like. It is readable without
// a credential, as the API's description is: it tells nothing of this mesh.
func (s *Server) serveSchema(w http.ResponseWriter, r *http.Request) {
	kind, err := manifest.ParseKind(r.PathValue("kind"))
	if err != nil {
		s.fail(w, r, parley.E("control.schema", parley.NotFound, "", err.Error(), nil))
		return
	}
	w.Header().Set("Content-Type", "application/schema+json")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(manifest.Schema(kind)) // the reader has left: nobody to tell
}

// Apply asks that the mesh hold what documents declare. Fields of a
// parley.Invalid error have paths as /documents/3/spec/url.
func (c *Client) Apply(ctx context.Context, r ApplyRequest) (out apply.Plan, err error) {
	if r.Documents == nil {
		r.Documents = []json.RawMessage{}
	}
	err = c.do(ctx, request{op: "control.apply", method: http.MethodPost, path: applyPath, body: r}, &out)
	return out, err
}
