package parley

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestEveryKindHasARow(t *testing.T) {
	codes := map[string]bool{}
	for k := Internal; k <= Unsupported; k++ {
		info := kinds[k]
		if info.Code == "" || info.HTTPStatus == 0 || info.RPCCode == 0 || info.Exit == 0 {
			t.Errorf("kind %d has an incomplete row: %+v", k, info)
		}
		if codes[info.Code] {
			t.Errorf("code %q stands twice", info.Code)
		}
		codes[info.Code] = true
		if KindOfCode(info.Code) != k {
			t.Errorf("KindOfCode(%q) = %v, want %v", info.Code, KindOfCode(info.Code), k)
		}
	}
	if len(kinds) != int(Unsupported)+1 {
		t.Errorf("%d rows for %d kinds", len(kinds), Unsupported+1)
	}
}

func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		shape Shape
		want  Verdict
	}{
		{"TASK_STATE_COMPLETED", Verdict{OutcomeOK, false}},
		{"TASK_STATE_FAILED", Verdict{OutcomeAgentError, false}},
		{"TASK_STATE_REJECTED", Verdict{OutcomeRejected, false}},
		{ShapeDial, Verdict{OutcomeCrash, true}},
		{"never heard of", Verdict{OutcomeCrash, false}},
	} {
		if got := Judge(tc.shape); got != tc.want {
			t.Errorf("Judge(%q) = %+v, want %+v", tc.shape, got, tc.want)
		}
	}
	for status, want := range map[int]Outcome{404: OutcomeAgentError, 418: OutcomeAgentError, 503: OutcomeCrash, 599: OutcomeCrash, 504: OutcomeTimeout, 302: OutcomeCrash, -1: OutcomeCrash} {
		if got := JudgeHTTP(status).Outcome; got != want {
			t.Errorf("JudgeHTTP(%d) = %q, want %q", status, got, want)
		}
	}
}

func TestEveryVerdictIsAKnownOutcome(t *testing.T) {
	for shape, v := range verdicts {
		if v.Outcome == OutcomeOpen && strings.HasPrefix(string(shape), "TASK_STATE_") {
			continue
		}
		if _, ok := ParseOutcome(string(v.Outcome)); !ok {
			t.Errorf("shape %q has the unknown outcome %q", shape, v.Outcome)
		}
	}
}

func TestErrorKeepsItsCauseFromWhoeverAsked(t *testing.T) {
	cause := errors.New("dsn=postgres://u:secret@h")
	err := fmt.Errorf("load: %w", E("store.open", Unavailable, "db", "the store is away", cause))
	if KindOf(err) != Unavailable {
		t.Errorf("KindOf = %v", KindOf(err))
	}
	if got := PublicMessage(err); strings.Contains(got, "secret") || got != "the store is away" {
		t.Errorf("PublicMessage = %q", got)
	}
	if !errors.Is(err, cause) {
		t.Error("the cause is lost for the log")
	}
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "finance-prod-v3", strings.Repeat("a", 63)} {
		if err := CheckName("agent", good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "A", "3a", "-a", "a_b", "a/b", "a.b", "ä", strings.Repeat("a", 64)} {
		if CheckName("agent", bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestCallIDText(t *testing.T) {
	id := NewCallID()
	got, err := ParseCallID(id.String())
	if err != nil || got != id {
		t.Errorf("ParseCallID(%q) = %v, %v", id, got, err)
	}
	for _, bad := range []string{"x", "urn:uuid:" + id.String(), "{" + id.String() + "}", strings.ReplaceAll(id.String(), "-", "")} {
		if _, err := ParseCallID(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
