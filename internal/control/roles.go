package control

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mesh/parley/internal/parley"
)

// Reach is how far a role goes in one operation.
type Reach uint8

// The reaches, from nothing to everything.
const (
	ReachNone Reach = iota
	// ReachOwn is what the caller's own owner has. Reading looks at the owner
	// alone; changes are for the caller's own environment as well, since a key
	// in another one would call agents that the caller may not.
	ReachOwn
	ReachAll // whatever there is, of all owners and environments
)

// String is the word that docs/roles.md uses.
func (r Reach) String() string {
	switch r {
	case ReachOwn:
		return "own"
	case ReachAll:
		return "all"
	}
	return "–"
}

// Grants says what every role but admin, which may everything, may do in one
// operation. An operation whose Grants are zero is for admins alone.
type Grants struct {
	Viewer, Operator, Registrar, Auditor Reach

	NoRole Reach // of callers without any
}

// Of is the reach of one role.
func (g Grants) Of(role parley.Role) Reach {
	switch role {
	case parley.RoleAdmin:
		return ReachAll
	case parley.RoleOperator:
		return g.Operator
	case parley.RoleRegistrar:
		return g.Registrar
	case parley.RoleAuditor:
		return g.Auditor
	case parley.RoleViewer:
		return g.Viewer
	}
	return g.NoRole
}

// describe says the row in words, for the OpenAPI document.
func (g Grants) describe() string {
	roles := []string{string(parley.RoleAdmin)}
	for _, role := range parley.Roles[1:] {
		switch g.Of(role) {
		case ReachAll:
			roles = append(roles, string(role))
		case ReachOwn:
			roles = append(roles, string(role)+" (own owner)")
		}
	}
	if g.NoRole == ReachAll {
		roles = append(roles, "none needed")
	}
	return "Roles: " + strings.Join(roles, ", ") + "."
}

// reachOf is the furthest reach of any of these roles.
func (g Grants) reachOf(roles []parley.Role) Reach {
	most := g.NoRole
	for _, role := range roles {
		most = max(most, g.Of(role))
	}
	return most
}

// Parts of operations that need more than the operation itself. Their rows
// stand in the table as OPERATION#PART.
const (
	partAgentAuth    = "addAgent#auth"    // a new agent that comes with a credential
	partInstanceAuth = "addInstance#auth" // an instance at another origin that is shown the agent's credential
	partTaskSnapshot = "getTask#snapshot" // a task with its content
)

// Rows that several operations share.
var (
	everybodyReads = Grants{Viewer: ReachAll, Operator: ReachAll, Registrar: ReachAll, Auditor: ReachAll}
	everybody      = Grants{Viewer: ReachAll, Operator: ReachAll, Registrar: ReachAll, Auditor: ReachAll, NoRole: ReachAll}
	ownReads       = Grants{Viewer: ReachOwn, Operator: ReachAll, Registrar: ReachOwn, Auditor: ReachAll} // of what happened
	watchers       = Grants{Operator: ReachAll, Auditor: ReachAll}
	keeping        = Grants{Operator: ReachAll, Registrar: ReachOwn} // agents
	stopping       = Grants{Operator: ReachAll}                      // and letting go on: not for those who are stopped
	registering    = Grants{Registrar: ReachOwn}                     // who there is, and what proves it
	adminAlone     = Grants{}
)

// RoleTable says who may do what: a row for every operation of the API, by its
// id in the OpenAPI document, and for every part that needs more. A test asks
// the API cell by cell; docs/roles.md is made of it.
var RoleTable = map[string]Grants{
	"getStatus": everybodyReads,
	"whoAmI":    everybody,
	"apply":     adminAlone, // it may touch every owner's things
	"backup":    adminAlone, // everything, whoever's

	"listOwners":  everybodyReads,
	"getOwner":    everybodyReads,
	"createOwner": adminAlone,
	"updateOwner": registering,
	"deleteOwner": adminAlone,

	"listPrincipals":      everybodyReads,
	"getPrincipal":        everybodyReads,
	"createPrincipal":     registering,
	"updatePrincipal":     registering,
	"deletePrincipal":     registering,
	"freezePrincipal":     stopping,
	"unfreezePrincipal":   stopping,
	"listPrincipalNames":  everybodyReads,
	"linkPrincipalName":   adminAlone, // names are the whole mesh's: who links one first has it
	"unlinkPrincipalName": adminAlone,
	"listSubjects":        everybodyReads,
	"linkSubject":         adminAlone, // as names are
	"unlinkSubject":       adminAlone,

	"listKeys":  {Operator: ReachAll, Registrar: ReachOwn, Auditor: ReachAll},
	"getKey":    {Operator: ReachAll, Registrar: ReachOwn, Auditor: ReachAll},
	"createKey": registering,
	"revokeKey": registering,

	"listAgents":     everybodyReads,
	"getAgent":       everybodyReads,
	"addAgent":       keeping,
	partAgentAuth:    registering,
	"removeAgent":    keeping,
	"refreshAgent":   keeping,
	"approveAgent":   keeping,
	"suspendAgent":   stopping,
	"resumeAgent":    stopping,
	"allowOwner":     keeping,
	"disallowOwner":  keeping,
	"setAuth":        registering,
	"removeAuth":     registering,
	"listInstances":  everybodyReads,
	"addInstance":    keeping,
	partInstanceAuth: registering,
	"removeInstance": keeping,
	"checkCard":      {Operator: ReachAll, Registrar: ReachAll}, // it makes the mesh fetch, and stores nothing

	"listCalls":   ownReads,
	"getCall":     ownReads,
	"getCallTree": ownReads,
	"cancelCall":  stopping,

	"listTasks":      ownReads,
	"getTask":        ownReads,
	partTaskSnapshot: adminAlone,

	"listPushes":      ownReads,
	"retryPush":       stopping,
	"listDeadLetters": ownReads,
	"retryDeadLetter": stopping,

	"listEvents":   watchers,
	"streamEvents": watchers,
}

// RolesPage is docs/roles.md.
func RolesPage() []byte {
	var b bytes.Buffer
	b.WriteString(`# Roles

Made from the table in internal/control/roles.go by ` + "`make generate`" + `; a test asks the control API cell by cell.

Calling agents needs no role, and neither does asking who one is (` + "`whoAmI`" + `). The rest of the control API is for principals
that have one; several add up:

` + "```" + `
parley principal create ops --role operator
parley principal update ops --role operator,auditor
` + "```" + `

| role | for |
|---|---|
| ` + "`viewer`" + ` | who wants to see what there is: reads owners, principals, agents and the mesh's state, and what happened to the own owner's calls and tasks |
| ` + "`operator`" + ` | who keeps the mesh running: reads everything but payloads, manages agents of all owners, suspends agents, freezes principals, cancels calls |
| ` + "`registrar`" + ` | who keeps what one owner has: its agents with their credentials, its principals and their keys |
| ` + "`auditor`" + ` | who looks at what happened, of all owners: calls, tasks, events, keys; changes nothing |
| ` + "`admin`" + ` | everything, calls to every agent included |

*all*: of all owners. *own*: of the owner that the principal belongs to; for changes in the principal's environment only.
–: refused. ` + "`admin`" + ` may do all of it and has no column.

| operation | viewer | operator | registrar | auditor |
|---|---|---|---|---|
`)
	ids := make([]string, 0, len(RoleTable))
	for id := range RoleTable {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) })
	for _, id := range ids {
		g := RoleTable[id]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", id, g.Viewer, g.Operator, g.Registrar, g.Auditor)
	}
	b.WriteString(`
` + "`OPERATION#PART`" + ` is a part of an operation that needs more: ` + "`" + partAgentAuth + "`" + ` an agent added together with a credential,
` + "`" + partInstanceAuth + "`" + ` an instance that is shown the agent's credential at another origin,
` + "`" + partTaskSnapshot + "`" + ` a task with its content.

## What nobody gets by a role

Whatever the table says:

* A role is given only by who has it, so a registrar cannot make operators. Taking one away needs it as well.
* Nobody changes or removes a principal that has a role which they lack, and nobody makes keys for it or revokes them.
* Operators freeze everybody but admins, and nobody freezes themselves.
* What an operator has stopped stays stopped for registrars: a frozen principal is not changed by them, a suspended agent not removed.
* The calling side of an agent counts as a principal of the agent's owner and environment.
* Owner and environment of a principal never change, and names in client certificates and subjects of
  issuers are linked by admins alone.

Roles that a token gives ([sign-on](sign-on.md)) last as long as the token and are not the principal's: its keys do not have
them. A key that was made before its principal got a role has that role too: look at ` + "`parley key list --for NAME`" + ` before giving one.
The mesh's own socket is the local admin; roles do not apply there.
`)
	return b.Bytes()
}
