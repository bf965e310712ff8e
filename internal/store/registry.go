package store

import (
	"context"
	"database/sql/driver"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
	"github.com/parley-mesh/parley/internal/vault"
)

const agentColumns = `name, owner, environment, kind, url, card_url, status, reason, card, card_hash, card_etag,
	title, description, agent_version, interfaces, use_interface, warnings, pending, allow,
	checked_at, check_err, created_at, updated_at, version`

func scanAgent(row scanner) (*registry.Agent, error) {
	var a registry.Agent
	err := row.Scan(&a.Name, &a.Owner, &a.Environment, &a.Kind, &a.URL, &a.CardURL, &a.Status, &a.Reason,
		&a.Card, &a.CardHash, &a.CardETag, &a.Title, &a.Description, &a.AgentVersion,
		jsonColumn{&a.Interfaces}, &a.Use, jsonColumn{&a.Warnings}, jsonColumn{&a.Pending}, jsonColumn{&a.Allow},
		timeColumn{&a.CheckedAt}, &a.CheckErr, timeColumn{&a.CreatedAt}, timeColumn{&a.UpdatedAt}, &a.Version,
		timeColumn{&a.CalledAt}, timeColumn{&a.SeenAt})
	return &a, err
}

const selectAgents = `SELECT ` + agentColumns + `, called_at, seen_at FROM agents LEFT JOIN agent_use ON agent_use.agent = agents.name`

const existsAgent = `SELECT 1 FROM agents WHERE name = ?`

// Agent implements registry.Store.
func (db *DB) Agent(ctx context.Context, name parley.AgentName) (*registry.Agent, error) {
	a, err := scanAgent(db.read.QueryRowContext(ctx, selectAgents+` WHERE name = ?`, string(name)))
	return found(a, db.missing("store.agent", "agent", string(name), err))
}

// Agents implements registry.Store.
func (db *DB) Agents(ctx context.Context, owner parley.OwnerName, after parley.AgentName, limit int) ([]*registry.Agent, error) {
	var w where
	w.and("name > ?", string(after))
	if owner != "" {
		w.and("owner = ?", string(owner))
	}
	agents, err := query(ctx, db, scanAgent, selectAgents+w.String()+` ORDER BY name LIMIT ?`, append(w.args, page(limit))...)
	return agents, db.fault("store.agents", "", err)
}

// SaveAgent implements registry.Store. An owner that does not exist is
// parley.Invalid.
func (db *DB) SaveAgent(ctx context.Context, a *registry.Agent, events ...parley.Event) error {
	values, err := agentValues(a)
	if err != nil {
		return db.fault("store.save_agent", parley.Subject(a.Name), err)
	}
	name, looked := a.Name, a.CheckedAt // the writer may come to it after ctx is done
	well := a.CheckErr == "" && !looked.IsZero()
	return db.save(ctx, saving{
		op: "store.save_agent", what: "agent", name: string(a.Name), version: &a.Version, owner: string(a.Owner),
		exists: existsAgent,
		insert: `INSERT INTO agents (` + agentColumns + `)
			VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22,?23,?24)`,
		update: `UPDATE agents SET owner = ?2, environment = ?3, kind = ?4, url = ?5, card_url = ?6, status = ?7, reason = ?8,
			card = ?9, card_hash = ?10, card_etag = ?11, title = ?12, description = ?13, agent_version = ?14,
			interfaces = ?15, use_interface = ?16, warnings = ?17, pending = ?18, allow = ?19,
			checked_at = ?20, check_err = ?21, created_at = ?22, updated_at = ?23, version = ?24
			WHERE name = ?1 AND version = ?24 - 1`,
		values: values,
		after: func(tx *tx) error {
			if !well {
				return nil
			}
			return tx.seen(name, looked)
		},
	}, events)
}

// agentValues are the values of agentColumns without the version.
func agentValues(a *registry.Agent) ([]driver.Value, error) {
	var pending driver.Value
	if a.Pending != nil {
		s, err := encode(a.Pending)
		if err != nil {
			return nil, err
		}
		pending = s
	}
	interfaces, err := encode(a.Interfaces)
	if err != nil {
		return nil, err
	}
	warnings, err := encode(a.Warnings)
	if err != nil {
		return nil, err
	}
	allow, err := encode(a.Allow)
	if err != nil {
		return nil, err
	}
	card := a.Card
	if card == nil {
		card = []byte{}
	}
	return []driver.Value{
		string(a.Name), string(a.Owner), string(a.Environment), a.Kind, a.URL, a.CardURL, string(a.Status), a.Reason,
		card, a.CardHash, a.CardETag, a.Title, a.Description, a.AgentVersion,
		interfaces, int64(a.Use), warnings, pending, allow,
		micros(a.CheckedAt), a.CheckErr, micros(a.CreatedAt), micros(a.UpdatedAt),
	}, nil
}

// DeleteAgent implements registry.Store. Its credential goes with it, what is
// subscribed to of its tasks, and the
// principal under which it called with the keys of that; records stay, as do
// the tasks and contexts that others have at it.
func (db *DB) DeleteAgent(ctx context.Context, name parley.AgentName, version int64, events ...parley.Event) error {
	return db.remove(ctx, removal{
		op: "store.delete_agent", what: "agent", name: string(name), version: version,
		exists: existsAgent,
		before: func(tx *tx) error {
			for _, goes := range []string{
				`DELETE FROM credentials WHERE agent = ?`, `DELETE FROM instances WHERE agent = ?`, `DELETE FROM agent_use WHERE agent = ?`,
				`DELETE FROM push_relays WHERE agent = ?`,
			} {
				if _, err := tx.run(goes, string(name)); err != nil {
					return err
				}
			}
			db.uses.lost(name)
			return tx.takeCallingSide(ctx, db.gone, name, db.opt.Now())
		},
		statement: `DELETE FROM agents WHERE name = ? AND version = ?`,
	}, events)
}

func secretPlace(agent parley.AgentName) vault.Place {
	return vault.Place{Table: "credentials", Row: string(agent), Column: "secret"}
}

func keyPlace(agent parley.AgentName) vault.Place {
	return vault.Place{Table: "credentials", Row: string(agent), Column: "private_key"}
}

// credentialSettings are the parts of a credential that only some kinds have
// and that are no secret.
type credentialSettings struct {
	Token *registry.TokenRequest `json:"token,omitempty"`
	Chain string                 `json:"chain,omitempty"`
	CA    string                 `json:"ca,omitempty"`
}

// Credential implements registry.Store.
func (db *DB) Credential(ctx context.Context, agent parley.AgentName) (*registry.Credential, error) {
	const op parley.Op = "store.credential"
	c := registry.Credential{Agent: agent}
	var sealed, key []byte
	var settings credentialSettings
	err := db.read.QueryRowContext(ctx, `SELECT kind, place, name, origin, secret, owner, created_at, settings, private_key FROM credentials WHERE agent = ?`,
		string(agent)).Scan(&c.Kind, &c.In, &c.Name, &c.Origin, &sealed, &c.Owner, timeColumn{&c.CreatedAt}, jsonColumn{&settings}, &key)
	if err != nil {
		return nil, db.missing(op, "credential for the agent", string(agent), err)
	}
	c.Token = settings.Token
	if key != nil {
		opened, err := db.vault.Open(ctx, c.Owner, keyPlace(agent), key)
		if err != nil {
			return nil, err
		}
		c.Certificate = &registry.ClientCertificate{Chain: settings.Chain, CA: settings.CA, Key: string(opened)}
	}
	secret, err := db.vault.Open(ctx, c.Owner, secretPlace(agent), sealed)
	if err != nil {
		return nil, err
	}
	c.Secret = string(secret)
	return &c, nil
}

// SaveCredential implements registry.Store. It replaces the agent's
// credential; an agent that does not exist is parley.NotFound.
func (db *DB) SaveCredential(ctx context.Context, c *registry.Credential, events ...parley.Event) error {
	const op parley.Op = "store.save_credential"
	subject := parley.Subject(c.Agent)
	sealed, err := db.vault.Seal(ctx, c.Owner, secretPlace(c.Agent), []byte(c.Secret))
	if err != nil {
		return db.fault(op, subject, err)
	}
	var key, settings driver.Value
	if c.Token != nil || c.Certificate != nil {
		more := credentialSettings{Token: c.Token}
		if cert := c.Certificate; cert != nil {
			more.Chain, more.CA = cert.Chain, cert.CA
			if key, err = db.vault.Seal(ctx, c.Owner, keyPlace(c.Agent), []byte(cert.Key)); err != nil {
				return db.fault(op, subject, err)
			}
		}
		if settings, err = encode(more); err != nil {
			return db.fault(op, subject, err)
		}
	}
	row := *c // the writer may read it after ctx is done
	err = db.do(ctx, statements(func(tx *tx) error {
		_, err := tx.run(`INSERT INTO credentials (agent, kind, place, name, origin, secret, owner, created_at, settings, private_key) VALUES (?,?,?,?,?,?,?,?,?,?)
			ON CONFLICT (agent) DO UPDATE SET kind = excluded.kind, place = excluded.place, name = excluded.name,
				origin = excluded.origin, secret = excluded.secret, owner = excluded.owner, created_at = excluded.created_at,
				settings = excluded.settings, private_key = excluded.private_key`,
			string(row.Agent), string(row.Kind), row.In, row.Name, row.Origin, sealed, string(row.Owner), micros(row.CreatedAt), settings, key)
		if dangling(err) {
			return notFound(op, "agent", string(row.Agent))
		}
		if err == nil {
			err = tx.note("agents")
		}
		if err != nil {
			return err
		}
		return tx.events(events)
	}))
	return db.fault(op, subject, err)
}

// DeleteCredential implements registry.Store.
func (db *DB) DeleteCredential(ctx context.Context, agent parley.AgentName, events ...parley.Event) error {
	const op parley.Op = "store.delete_credential"
	err := db.do(ctx, statements(func(tx *tx) error {
		n, err := tx.run(`DELETE FROM credentials WHERE agent = ?`, string(agent))
		if err != nil {
			return err
		}
		if n == 0 {
			return notFound(op, "credential for the agent", string(agent))
		}
		if err := tx.note("agents"); err != nil {
			return err
		}
		return tx.events(events)
	}))
	return db.fault(op, parley.Subject(agent), err)
}
