package control

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// maxSubjects is how many subjects of one principal are shown.
const maxSubjects = 200

// Subject is somebody whom an issuer of tokens knows, and who is a principal
// here.
type Subject struct {
	Issuer    string               `json:"issuer"`
	Subject   string               `json:"subject"`
	Principal parley.PrincipalName `json:"principal"`
	Made      bool                 `json:"made" doc:"The principal was made for this subject, at its first call."`
	CreatedAt time.Time            `json:"createdAt"`
	SeenAt    *time.Time           `json:"seenAt,omitempty" doc:"When a token of it was last verified, to about an hour. Missing: never."`
}

// NewSubject names a subject that is to be a principal.
type NewSubject struct {
	Issuer  string `json:"issuer" maxLength:"2048" doc:"The issuer, exactly as its tokens have it in iss."`
	Subject string `json:"subject" maxLength:"512" doc:"What its tokens have in sub."`
}

// Identity is who asks.
type Identity struct {
	Name        parley.PrincipalName `json:"name"`
	Owner       parley.OwnerName     `json:"owner"`
	Environment parley.Environment   `json:"environment"`
	Agent       parley.AgentName     `json:"agent,omitempty"`
	Roles       []parley.Role        `json:"roles" nullable:"false" doc:"Those of the principal, and those its token gives."`
	Key         string               `json:"key,omitempty" doc:"The public half of the API key that proved it."`
	Issuer      string               `json:"issuer,omitempty" doc:"Whose token proved it."`
}

// whoAmIPath is the one operation for callers without a role.
const whoAmIPath = "/whoami"

func subjectOf(l *identity.Link) Subject {
	return Subject{
		Issuer: l.Issuer, Subject: l.Subject, Principal: l.Principal, Made: l.Made,
		CreatedAt: l.CreatedAt.UTC(), SeenAt: timeOf(l.SeenAt),
	}
}

func (s *Server) subjectRoutes() {
	dir := s.opts.Identity
	route(s, operation("listSubjects", "GET", "/principals/{name}/subjects", "List the subjects of issuers that are a principal, at most 200", 200),
		func(ctx context.Context, in *PrincipalPath) (*listed[Subject], error) {
			if _, err := dir.Principal(ctx, in.Name); err != nil {
				return nil, err
			}
			links, err := dir.Links(ctx, in.Name, maxSubjects)
			return page(links, maxSubjects, subjectOf, func(*identity.Link) string { return "" }), err
		})
	type link struct {
		PrincipalPath
		Body NewSubject
	}
	route(s, operation("linkSubject", "POST", "/principals/{name}/subjects", "Make a subject of an issuer be a principal", 201),
		func(ctx context.Context, in *link) (*entity[Subject], error) {
			l, err := dir.LinkPrincipal(ctx, in.Name, in.Body.Issuer, in.Body.Subject)
			if err != nil {
				return nil, err
			}
			return &entity[Subject]{Body: subjectOf(l)}, nil
		})
	type unlink struct {
		PrincipalPath
		Issuer  string `query:"issuer" required:"true" maxLength:"2048"`
		Subject string `query:"subject" required:"true" maxLength:"512"`
	}
	route(s, operation("unlinkSubject", "DELETE", "/principals/{name}/subjects", "Let a subject be nobody again, in force at once", 204),
		func(ctx context.Context, in *unlink) (*empty, error) {
			return &empty{}, dir.UnlinkPrincipal(ctx, in.Name, in.Issuer, in.Subject)
		})
	route(s, operation("whoAmI", "GET", whoAmIPath, "Say who asks", 200),
		func(ctx context.Context, _ *struct{}) (*entity[Identity], error) {
			c := identity.CallerFrom(ctx)
			out := Identity{Name: c.Name, Owner: c.Owner, Environment: c.Environment, Agent: c.Agent, Roles: c.Roles, Key: c.KeyID, Issuer: c.Issuer}
			if out.Roles == nil {
				out.Roles = []parley.Role{}
			}
			return &entity[Identity]{Body: out}, nil
		})
}
