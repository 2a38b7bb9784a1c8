// Package inbox makes one event of package outbox out of each message that arrives as a verified webhook delivery, however
// often its sender delivers it, and however many times at once.
//
// [New] takes a verifier and a function that drafts the event, and makes the whole [net/http.Handler]:
//
//	hook, err := inbox.New(pool, verifier, inbox.Config{
//		Source: "github",
//		Draft: func(_ context.Context, d webhook.Delivery) (event.Draft, error) {
//			push, err := inbox.Decode[Push](d)
//			return RepositoryPushed.New("repository", push.RepositoryID, "", push), err
//		},
//	})
//	...
//	mux.Handle("POST /hooks/github", hook)
//
// The message and its event are written in one transaction: both or none. What the sender is told:
//
//	200  written; or written before; or ignored by Draft: one and the same answer
//	4xx  refused, by Draft with a [*RefusedError] or by the verifier as described in package webhook
//	500  Draft failed, or drafted what the outbox cannot take; or the database is not set up for this
//	503  the database is away or too busy; with Retry-After
//
// After any answer but 200 nothing is written, so that the sender can deliver again. The one exception is a connection
// that breaks during the commit: the answer is then 503, and the next delivery is recognised as a repeat if it was one.
//
// The answer depends on the delivery, never on the order of arrival. Draft is asked about repeats too. Deliveries of one
// message at the same time wait for each other: when the first is written, the others answer 200 as any repeat does, and
// when it fails, the next one is written in its place.
//
// A message is recognised by what its sender signed, see [webhook.Delivery.Key], for Config.Retention at least. Until
// [Inbox.Prune] is called, or the command "pgrail prune --keep-inbox", nothing is forgotten: do it once a day, say.
//
// Applications that write more than the event use [Inbox.Record] in a transaction of their own and [Inbox.Answer] for the
// answer. The role of the pool needs what "pgrail grant inbox ROLE" and "pgrail grant producer ROLE" give.
package inbox
