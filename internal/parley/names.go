package parley

import (
	"fmt"
	"strings"
)

// MaxNameLength is the longest name of an owner, principal or agent, in bytes.
// It is the length of a DNS label, so that names can become host names.
const MaxNameLength = 63

// DefaultOwner answers for whatever is registered without an owner.
const DefaultOwner OwnerName = "default"

// OwnerName names the team that answers for something.
type OwnerName string

// AgentName names an agent; it is unique in the mesh.
type AgentName string

// PrincipalName names whoever calls; it is unique in the mesh.
type PrincipalName string

// LocalAdmin is the principal of a caller on the mesh's own Unix socket.
const LocalAdmin PrincipalName = "local-admin"

// Anonymous is the principal of a caller without a credential, where the
// configuration opens an agent to such callers.
const Anonymous PrincipalName = "anonymous"

// CheckName reports why s cannot be the name of a thing called what ("agent",
// "owner"), or nil. Names are [a-z][a-z0-9-]*, MaxNameLength bytes at most.
func CheckName(what, s string) error {
	if s == "" {
		return fmt.Errorf("%s name is empty: use letters a-z, digits and '-', starting with a letter", what)
	}
	if len(s) > MaxNameLength {
		return fmt.Errorf("%s name is %d characters long: at most %d are allowed", what, len(s), MaxNameLength)
	}
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z'
		if letter || i > 0 && (c >= '0' && c <= '9' || c == '-') {
			continue
		}
		return fmt.Errorf("%s name %q has %q at position %d: use letters a-z, digits and '-', starting with a letter", what, s, s[i:i+1], i+1)
	}
	return nil
}

// Environment is the stage something runs in. It is part of identity: nothing
// learnt in one environment counts in another.
type Environment string

// The environments. Dev is the default.
const (
	Dev     Environment = "dev"
	Test    Environment = "test"
	Staging Environment = "staging"
	Prod    Environment = "prod"
)

// Environments lists all environments in order of how much is at stake.
var Environments = []Environment{Dev, Test, Staging, Prod}

// ParseEnvironment reads an environment's name; empty means Dev.
func ParseEnvironment(s string) (Environment, error) {
	if s == "" {
		return Dev, nil
	}
	for _, e := range Environments {
		if s == string(e) {
			return e, nil
		}
	}
	return "", fmt.Errorf("environment %q is unknown: use dev, test, staging or prod", s)
}

// Role is what a principal may do towards the mesh itself. Calling agents
// needs no role.
type Role string

// The roles of the control API.
const (
	RoleAdmin     Role = "admin"     // everything
	RoleOperator  Role = "operator"  // keeps agents and callers running, for all owners
	RoleRegistrar Role = "registrar" // keeps what one owner has in one environment
	RoleAuditor   Role = "auditor"   // reads what happened, of all owners
	RoleViewer    Role = "viewer"    // reads what there is
)

// Roles lists all roles, the one with the most rights first.
var Roles = []Role{RoleAdmin, RoleOperator, RoleRegistrar, RoleAuditor, RoleViewer}

// ParseRole reads a role's name.
func ParseRole(s string) (Role, error) {
	var known []string
	for _, r := range Roles {
		if s == string(r) {
			return r, nil
		}
		known = append(known, string(r))
	}
	return "", fmt.Errorf("role %q is unknown: use one of %s", s, strings.Join(known, ", "))
}
