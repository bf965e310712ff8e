package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

func cardCommand(p *program) *cobra.Command {
	var extended bool
	cmd := &cobra.Command{
		Use: "card URL|AGENT", Short: "Fetch an agent's card, check it and explain it; nothing is stored",
		Long: `Let the mesh fetch an agent's card, check it, try its interfaces and explain what
was found. Nothing is stored and nothing is executed. What looks like a name is
taken as the name of a registered agent; anything with a dot, a colon or a slash
is an address.

--extended shows what a registered agent tells callers who are known: the card as
the mesh serves it to you.

Authors of agents sign their cards with parley card sign, and see with
parley card verify what a signature is worth.`,
		Example: `  parley card http://127.0.0.1:9000
  parley card agents.example.com/billing
  parley card echo --output json
  parley card echo --extended`,
		Args: arguments("URL|AGENT"),
	}
	cmd.Flags().BoolVar(&extended, "extended", false, "the extended card of a registered agent, as the mesh shows it to you")
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if extended {
			return p.extendedCard(c.Context(), args[0])
		}
		return p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			address, stored := args[0], json.RawMessage(nil)
			if !strings.ContainsAny(address, ".:/") {
				a, err := c.Agent(ctx, parley.AgentName(address))
				if err != nil {
					return err
				}
				address, stored = a.CardURL, a.Card
			}
			report, err := c.CheckCard(ctx, address)
			if err != nil {
				return err
			}
			if err := p.show(report, func(f *facts) { reportFacts(f, report) }); err != nil {
				return err
			}
			if stored != nil && report.Card != nil && !sameJSON(stored, report.Card) {
				p.remark("the mesh uses an older card of %s; let it look again: parley agent refresh %s", args[0], args[0])
			}
			if report.Card == nil {
				return cardless(address, report)
			}
			return verdict(report)
		})(c, args)
	}
	cmd.AddCommand(cardSignCommand(p), cardVerifyCommand(p))
	return cmd
}

// extendedCard shows the card that an agent has for callers who are known.
func (p *program) extendedCard(ctx context.Context, agent string) error {
	e, err := p.edge(agent, "")
	if err != nil {
		return err
	}
	card, err := e.GetExtendedCard(ctx)
	if err != nil {
		return err
	}
	if p.json() {
		return p.document(wire{card})
	}
	var f facts
	f.add("name", card.Name)
	f.add("description", card.Description)
	f.add("version", card.Version)
	for _, s := range card.Skills {
		f.add("skill", strings.TrimSpace(s.ID+" "+s.Name)+": "+s.Description)
	}
	for _, x := range card.Capabilities.Extensions {
		text := x.URI
		if x.Required {
			text += " (every request must ask for it)"
		}
		f.add("extension", text)
	}
	for _, i := range card.SupportedInterfaces {
		f.add("interface", fmt.Sprintf("%s %s at %s", i.ProtocolBinding, i.ProtocolVersion, i.URL))
	}
	return f.write(p.Out)
}

// verdict is an error where the card would not be registered.
func verdict(r control.Report) error {
	refusals := 0
	for _, problem := range r.Problems {
		if problem.Level == registry.Refusal {
			refusals++
		}
	}
	if refusals == 0 {
		return nil
	}
	return parley.E("cli.card", parley.Invalid, parley.Subject(r.CardURL),
		fmt.Sprintf("an agent with this card is not registered: %d of what is written above must be mended", refusals), nil)
}

// cardText is what a person wants to read of a card.
type cardText struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Version     string `json:"version"`
	Skills      []struct {
		ID          string `json:"id"`
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"skills"`
	Capabilities struct {
		Streaming bool `json:"streaming"`
	} `json:"capabilities"`
}

func reportFacts(f *facts, r control.Report) {
	f.add("card", r.CardURL)
	for _, t := range r.Tried {
		f.add("tried", t.URL+": "+t.Result)
	}
	var card cardText
	// A card of another shape is what the problems below are about.
	if json.Unmarshal(r.Card, &card) == nil {
		f.add("name", card.Name)
		f.add("description", card.Description)
		f.add("version", card.Version)
		if card.Capabilities.Streaming {
			f.add("streaming", "yes")
		}
		for _, s := range card.Skills {
			f.add("skill", strings.TrimSpace(s.ID+" "+s.Name)+": "+s.Description)
		}
	}
	f.add("signature", signatureText(r.Signature))
	for i, one := range r.Interfaces {
		f.add("interface", interfaceText(one, i == r.Chosen))
	}
	for _, problem := range r.Problems {
		f.add(string(problem.Level), problem.String())
	}
}

func sameJSON(a, b json.RawMessage) bool {
	var left, right bytes.Buffer
	return json.Compact(&left, a) == nil && json.Compact(&right, b) == nil && bytes.Equal(left.Bytes(), right.Bytes())
}
