// Package webhook verifies push notifications that a Parley mesh delivers.
//
// A mesh posts the events of a task to the URL that was given as the task's
// TaskPushNotificationConfig. Each delivery carries proof of where it comes from
// and what it says:
//
//   - a token of the mesh, a JWT signed with ES256: in Authorization as a bearer
//     token or, where the subscriber asked for its own Authorization, in
//     Parley-Push-Token. It names the mesh (iss), the URL (aud), the task (taskId)
//     and the SHA-256 of the body (body_sha256), is valid for five minutes and for
//     one attempt (jti);
//   - the headers of Standard Webhooks: webhook-id, which is the event's and stays
//     the same when it is delivered again, webhook-timestamp and webhook-signature;
//   - the subscriber's own token, if it gave one.
//
// The mesh publishes its keys at /.well-known/jwks.json. A Verifier fetches and
// keeps them, and checks all of the above:
//
//	verifier, err := webhook.New(webhook.Config{
//		Issuer:   "https://mesh.example.com",
//		Audience: "https://app.example.com/hooks/parley",
//	})
//	...
//	http.Handle("POST /hooks/parley", verifier.Handler(func(ctx context.Context, d *webhook.Delivery) error {
//		return store(d.TaskID, d.Body)
//	}))
//
// Deliveries of one subscription come one after the other, in order. What is not
// answered with a status of 2xx within the mesh's time limit comes again, for a
// day; 410 ends the subscription.
//
// The package needs nothing else of the mesh. A Verifier is safe for concurrent
// use.
package webhook
