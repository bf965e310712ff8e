package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"

	"github.com/parley-mesh/parley/webhook"
)

func ExampleVerifier_Handler() {
	verifier, err := webhook.New(webhook.Config{
		Issuer:   "https://mesh.example.com",
		Audience: "https://app.example.com/hooks/parley",
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/hooks/parley", verifier.Handler(func(_ context.Context, d *webhook.Delivery) error {
		fmt.Println(d.TaskID, len(d.Body))
		return nil // or an error, and the event comes again
	}))
	// http.ListenAndServe(":8080", mux)
}

func ExampleVerifier_Verify() {
	verifier, err := webhook.New(webhook.Config{
		Issuer:   "https://mesh.example.com",
		Audience: "https://app.example.com/hooks/parley",
		Expect:   func(taskID string) bool { return taskID == "4711" },
	})
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/hooks/parley", func(w http.ResponseWriter, r *http.Request) {
		d, err := verifier.Verify(r)
		switch {
		case errors.Is(err, webhook.ErrUnavailable):
			w.WriteHeader(http.StatusServiceUnavailable) // it comes again
		case err != nil:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			fmt.Println(d.ID, d.TaskID)
			w.WriteHeader(http.StatusNoContent)
		}
	})
}

func ExampleNew() {
	_, err := webhook.New(webhook.Config{Issuer: "http://mesh.example.com", Audience: "https://app.example.com/hooks"})
	fmt.Println(err)
	// Output: webhook: keys from "http://mesh.example.com/.well-known/jwks.json" could be anybody's: use https
}
