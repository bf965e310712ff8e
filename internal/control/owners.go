package control

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// Owner is a team that answers for things.
type Owner struct {
	Name        parley.OwnerName `json:"name"`
	Description string           `json:"description"`
	CreatedAt   time.Time        `json:"createdAt"`
	Version     int64            `json:"version"`
}

// NewOwner asks for an owner.
type NewOwner struct {
	Name        parley.OwnerName `json:"name" doc:"[a-z][a-z0-9-]*, at most 63 bytes."`
	Description string           `json:"description,omitempty"`
}

// OwnerChange is what may change of an owner.
type OwnerChange struct {
	Description string `json:"description"`
}

func ownerOf(o *identity.Owner) Owner {
	return Owner{Name: o.Name, Description: o.Description, CreatedAt: o.CreatedAt.UTC(), Version: o.Version}
}

func ownerEntity(o *identity.Owner, err error) (*entity[Owner], error) {
	if err != nil {
		return nil, err
	}
	return &entity[Owner]{ETag: etag(o.Version), Location: Prefix + "/owners/" + string(o.Name), Body: ownerOf(o)}, nil
}

// OwnerPath names an owner in the path of a request.
type OwnerPath struct {
	Name parley.OwnerName `path:"name" maxLength:"63"`
}

func (s *Server) ownerRoutes() {
	dir := s.opts.Identity
	route(s, operation("listOwners", "GET", "/owners", "List owners by name", 200),
		func(ctx context.Context, in *Paging) (*listed[Owner], error) {
			at, err := in.place("owners", 1)
			if err != nil {
				return nil, err
			}
			owners, err := dir.Owners(ctx, parley.OwnerName(at[0]), in.Limit+1)
			return page(owners, in.Limit, ownerOf, func(o *identity.Owner) string { return cursorOf("owners", string(o.Name)) }), err
		})
	route(s, operation("createOwner", "POST", "/owners", "Add an owner", 201),
		func(ctx context.Context, in *struct{ Body NewOwner }) (*entity[Owner], error) {
			return ownerEntity(dir.CreateOwner(ctx, in.Body.Name, in.Body.Description))
		})
	route(s, operation("getOwner", "GET", "/owners/{name}", "Show an owner", 200),
		func(ctx context.Context, in *OwnerPath) (*entity[Owner], error) {
			return ownerEntity(dir.Owner(ctx, in.Name))
		})
	type change struct {
		OwnerPath
		Matching
		Body OwnerChange
	}
	route(s, operation("updateOwner", "PATCH", "/owners/{name}", "Change an owner's description", 200),
		func(ctx context.Context, in *change) (*entity[Owner], error) {
			version, err := in.version()
			if err != nil {
				return nil, err
			}
			// An owner has no environment: whoever is of it may describe it.
			if err := permitRead(ctx, "updateOwner", in.Name); err != nil {
				return nil, err
			}
			return ownerEntity(dir.UpdateOwner(ctx, in.Name, version, in.Body.Description))
		})
	type deletion struct {
		OwnerPath
		Matching
	}
	route(s, operation("deleteOwner", "DELETE", "/owners/{name}", "Remove an owner that answers for nothing", 204),
		func(ctx context.Context, in *deletion) (*empty, error) {
			version, err := in.version()
			if err != nil {
				return nil, err
			}
			return &empty{}, dir.DeleteOwner(ctx, in.Name, version)
		})
}
