package control

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// StatusReader tells how the mesh is; what of it concerns callers that could
// not be identified the server adds.
type StatusReader interface {
	Status(ctx context.Context) (Status, error)
}

// Status is how the mesh is.
type Status struct {
	MeshID      string             `json:"meshId"`
	Version     string             `json:"version" doc:"Of the program."`
	Environment parley.Environment `json:"environment"`
	Started     time.Time          `json:"started"`
	Addresses   Addresses          `json:"addresses"`
	Store       StoreStatus        `json:"store"`
	Counts      Counts             `json:"counts"`
	// NetworkAllow are the private ranges in which agents may live.
	NetworkAllow []string     `json:"networkAllow" nullable:"false"`
	AuthFailures AuthFailures `json:"authFailures"`
}

// Addresses are where the mesh listens; empty where it does not.
type Addresses struct {
	Edge       string `json:"edge,omitempty"`
	Control    string `json:"control,omitempty" doc:"Missing where it shares the edge's."`
	GRPC       string `json:"grpc,omitempty"`
	Operations string `json:"operations,omitempty"`
	Public     string `json:"public,omitempty" doc:"As cards print it."`
	Socket     string `json:"socket,omitempty" doc:"Path of the Unix socket."`
}

// StoreStatus is how the store is.
type StoreStatus struct {
	Kind       string `json:"kind" doc:"sqlite or postgres."`
	Path       string `json:"path,omitempty"`
	Durability string `json:"durability" doc:"strict or relaxed."`
	Healthy    bool   `json:"healthy"`
	Problem    string `json:"problem,omitempty" doc:"What is wrong and what to do."`
	SizeBytes  int64  `json:"sizeBytes"`
	FreeBytes  int64  `json:"freeBytes" doc:"Left on its disk."`
}

// Counts is how much there is.
type Counts struct {
	Owners     int `json:"owners"`
	Principals int `json:"principals"`
	Agents     int `json:"agents"`
	Active     int `json:"active" doc:"Agents that may be called."`
	OpenCalls  int `json:"openCalls"`
}

// AuthFailures is how often callers could not be identified since the start.
type AuthFailures struct {
	Since   time.Time     `json:"since"`
	Total   int64         `json:"total"`
	Reasons []ReasonCount `json:"reasons" nullable:"false"`
}

// ReasonCount is how often one reason occurred.
type ReasonCount struct {
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
}

func (s *Server) statusRoutes() {
	route(s, operation("getStatus", "GET", "/status", "Tell how the mesh is", 200),
		func(ctx context.Context, _ *empty) (*entity[Status], error) {
			status, err := s.opts.Status.Status(ctx)
			if err != nil {
				return nil, err
			}
			status.NetworkAllow = filled(status.NetworkAllow)
			status.AuthFailures = s.authFailures()
			return &entity[Status]{Body: status}, nil
		})
}

func (s *Server) authFailures() AuthFailures {
	f := s.opts.Identity.Failures()
	out := AuthFailures{Since: f.Since.UTC(), Total: f.Total, Reasons: []ReasonCount{}}
	for _, reason := range f.Sorted() {
		out.Reasons = append(out.Reasons, ReasonCount{Reason: string(reason), Count: f.Reasons[reason]})
	}
	return out
}
