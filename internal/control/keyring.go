package control

import (
	"context"
	"net/http"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/keyring"
)

// Keyring has the keys with which the mesh signs; see keyring.Ring.
type Keyring interface {
	List(ctx context.Context) ([]keyring.Info, error)
	Rotate(ctx context.Context, ask keyring.Rotation) (*keyring.Info, error)
}

// MeshKey is a key with which the mesh signs, without its private half.
type MeshKey struct {
	ID          string          `json:"id" doc:"RFC 7638 thumbprint; the kid of what it signed."`
	Purpose     keyring.Purpose `json:"purpose" enum:"card,push,webhook"`
	Algorithm   string          `json:"algorithm"`
	State       keyring.State   `json:"state" enum:"next,current,retired,expired,revoked" doc:"next: published, and signs nothing yet. retired: published, and signs nothing any more. expired, revoked: not published."`
	CreatedAt   time.Time       `json:"createdAt"`
	ActiveAt    time.Time       `json:"activeAt" doc:"From then on it signs."`
	PublishedTo *time.Time      `json:"publishedTo,omitempty" doc:"When it leaves the published set; missing where that is not known yet."`
}

// MeshKeys are all keys with which the mesh signs or has signed.
type MeshKeys struct {
	Items []MeshKey `json:"items" nullable:"false"`
}

// MeshKeyRotation asks for another key.
type MeshKeyRotation struct {
	Revoke bool `json:"revoke,omitempty" doc:"Take back all keys of the purpose at once, as after a theft; what they signed no longer holds."`
}

func meshKeyOf(k keyring.Info) MeshKey {
	return MeshKey{
		ID: k.ID, Purpose: k.Purpose, Algorithm: k.Algorithm, State: k.State,
		CreatedAt: k.CreatedAt.UTC(), ActiveAt: k.ActiveAt.UTC(), PublishedTo: timeOf(k.Until),
	}
}

func (s *Server) keyringRoutes() {
	route(s, operation("listMeshKeys", "GET", "/keyring", "List the keys with which the mesh signs", 200),
		func(ctx context.Context, _ *struct{}) (*entity[MeshKeys], error) {
			all, err := s.opts.Keyring.List(ctx)
			if err != nil {
				return nil, err
			}
			out := &entity[MeshKeys]{Body: MeshKeys{Items: make([]MeshKey, 0, len(all))}}
			for _, k := range all {
				out.Body.Items = append(out.Body.Items, meshKeyOf(k))
			}
			return out, nil
		})
	type rotate struct {
		Purpose keyring.Purpose `path:"purpose" maxLength:"63" enum:"card,push,webhook"`
		Body    MeshKeyRotation
	}
	route(s, operation("rotateMeshKey", "POST", "/keyring/{purpose}/rotate", "Make another key with which the mesh signs", 200),
		func(ctx context.Context, in *rotate) (*entity[MeshKey], error) {
			ask := keyring.Rotation{Purpose: in.Purpose, Revoke: in.Body.Revoke}
			if c := identity.CallerFrom(ctx); c != nil {
				ask.By = c.Name
			}
			made, err := s.opts.Keyring.Rotate(ctx, ask)
			if err != nil {
				return nil, err
			}
			return &entity[MeshKey]{Body: meshKeyOf(*made)}, nil
		})
}

// MeshKeys lists the keys with which the mesh signs.
func (c *Client) MeshKeys(ctx context.Context) (out MeshKeys, err error) {
	err = c.do(ctx, request{op: "control.meshKeys", method: http.MethodGet, path: "/keyring"}, &out)
	return out, err
}

// RotateMeshKey makes another key of a purpose: card, push or webhook.
func (c *Client) RotateMeshKey(ctx context.Context, purpose string, r MeshKeyRotation) (out MeshKey, err error) {
	err = c.do(ctx, request{op: "control.rotateMeshKey", method: http.MethodPost, path: "/keyring/" + segment(purpose) + "/rotate", body: r}, &out)
	return out, err
}
