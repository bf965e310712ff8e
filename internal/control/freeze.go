package control

import (
	"context"
	"slices"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// PrincipalCertName is a name in client certificates that proves a principal.
type PrincipalCertName struct {
	Kind      identity.NameKind    `json:"kind" enum:"spiffe,dns"`
	Name      string               `json:"name" doc:"spiffe://TRUST-DOMAIN/PATH, or a host name."`
	Principal parley.PrincipalName `json:"principal"`
	CreatedAt time.Time            `json:"createdAt"`
}

// NewCertName asks for a link of a name in client certificates to a principal.
type NewCertName struct {
	Kind identity.NameKind `json:"kind" enum:"spiffe,dns" doc:"spiffe: the certificate's one URI SAN; dns: a DNS SAN."`
	Name string            `json:"name" maxLength:"2048" doc:"spiffe://TRUST-DOMAIN/PATH, or a host name without a wildcard."`
}

// CertNames are all names of one principal.
type CertNames struct {
	Items []PrincipalCertName `json:"items" nullable:"false"`
}

func certNameOf(n *identity.CertName) PrincipalCertName {
	return PrincipalCertName{Kind: n.Kind, Name: n.Name, Principal: n.Principal, CreatedAt: n.CreatedAt.UTC()}
}

// freezeRoutes are the verbs that stop all of one principal.
func (s *Server) freezeRoutes() {
	dir := s.opts.Identity
	type freeze struct {
		PrincipalPath
		Body Freeze
	}
	route(s, operation("freezePrincipal", "POST", "/principals/{name}/freeze", "Stop everything of a principal, in force at once", 200),
		func(ctx context.Context, in *freeze) (*entity[Principal], error) {
			if err := s.permitFreeze(ctx, "freezePrincipal", in.Name); err != nil {
				return nil, err
			}
			return principalEntity(dir.FreezePrincipal(ctx, in.Name, in.Body.Reason))
		})
	route(s, operation("unfreezePrincipal", "POST", "/principals/{name}/unfreeze", "Take a freeze back", 200),
		func(ctx context.Context, in *PrincipalPath) (*entity[Principal], error) {
			if err := s.permitFreeze(ctx, "unfreezePrincipal", in.Name); err != nil {
				return nil, err
			}
			return principalEntity(dir.UnfreezePrincipal(ctx, in.Name))
		})
	s.certNameRoutes()
}

// certNameRoutes link names in client certificates to principals.
func (s *Server) certNameRoutes() {
	dir := s.opts.Identity
	route(s, operation("listPrincipalNames", "GET", "/principals/{name}/names", "List the names in client certificates that prove a principal", 200),
		func(ctx context.Context, in *PrincipalPath) (*entity[CertNames], error) {
			names, err := dir.Names(ctx, in.Name)
			if err != nil {
				return nil, err
			}
			out := &entity[CertNames]{Body: CertNames{Items: make([]PrincipalCertName, 0, len(names))}}
			for _, n := range names {
				out.Body.Items = append(out.Body.Items, certNameOf(n))
			}
			return out, nil
		})
	type link struct {
		PrincipalPath
		Body NewCertName
	}
	route(s, operation("linkPrincipalName", "POST", "/principals/{name}/names", "Let a name in client certificates prove a principal", 201),
		func(ctx context.Context, in *link) (*entity[PrincipalCertName], error) {
			n, err := dir.LinkName(ctx, in.Name, in.Body.Kind, in.Body.Name)
			if err != nil {
				return nil, err
			}
			return &entity[PrincipalCertName]{Body: certNameOf(n)}, nil
		})
	type unlink struct {
		PrincipalPath
		Kind identity.NameKind `query:"kind" required:"true" enum:"spiffe,dns"`
		Cert string            `query:"name" required:"true" maxLength:"2048"`
	}
	route(s, operation("unlinkPrincipalName", "DELETE", "/principals/{name}/names", "Take a name from a principal, in force at once", 204),
		func(ctx context.Context, in *unlink) (*empty, error) {
			return &empty{}, dir.UnlinkName(ctx, in.Name, in.Kind, in.Cert)
		})
}

// permitFreeze refuses to freeze or unfreeze a principal that the caller may not
// stop. Nobody stops themselves: it could not be taken back by the same hand.
func (s *Server) permitFreeze(ctx context.Context, id string, name parley.PrincipalName) error {
	if identity.CallerFrom(ctx).Name == name {
		return parley.E("control.authorise", parley.Denied, parley.Subject(name), "nobody freezes themselves: ask somebody else to", nil)
	}
	p, err := s.opts.Identity.Principal(ctx, name)
	if err != nil {
		return err
	}
	if slices.Contains(p.Roles, parley.RoleAdmin) {
		return covers(ctx, []parley.Role{parley.RoleAdmin}, "principal "+string(name)+" has")
	}
	return permitChange(ctx, id, p.Owner, p.Environment)
}
