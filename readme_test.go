package pgrail_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/identity"
	"github.com/openlup/pgrail/identity/pgidentity"
	"github.com/openlup/pgrail/migrate"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
	"github.com/openlup/pgrail/webhook"
	"github.com/openlup/pgrail/webhook/inbox"
)

// This file holds the code of README.md; TestCodeInDocs compares them.

type Order struct {
	ID    uuid.UUID `json:"id"`
	Cents int64     `json:"cents"`
}

// OrderPlaced is what producers and handlers share, so that they cannot disagree about the payload.
var OrderPlaced = event.MustDefine[Order]("order.placed")

// place writes an order and its event: with the commit both are there, without it neither.
func place(ctx context.Context, pool *pgxpool.Pool, o Order) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO orders (id, cents) VALUES ($1, $2)`, o.ID, o.Cents); err != nil {
			return err
		}
		_, err := outbox.Enqueue(ctx, tx, OrderPlaced.New("order", o.ID, o.ID.String(), o))
		return err
	})
}

// work handles events until ctx ends, in as many processes as you like.
func work(ctx context.Context, pool *pgxpool.Pool) error {
	var handlers outbox.Handlers
	outbox.Handle(&handlers, OrderPlaced, func(ctx context.Context, e event.Event[Order]) error {
		fmt.Printf("an order of %d cents, try %d\n", e.Payload.Cents, e.Attempt)
		return nil // an error tries again later; event.Discard, Snooze and RetryAfter say otherwise
	})
	worker, err := outbox.NewWorker(pool, &handlers, outbox.Config{})
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

func Example_outbox() {
	ctx, stop := context.WithCancel(context.Background())
	pool := connect(ctx)
	defer pool.Close()
	if err := place(ctx, pool, Order{ID: uuid.New(), Cents: 1290}); err != nil {
		log.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- work(ctx, pool) }()
	for waiting(ctx, pool) {
	}
	stop()
	fmt.Println(<-done)
	// Output:
	// an order of 1290 cents, try 1
	// <nil>
}

// admins answers POST {"userId": "..."} from an admin with an access token by removing that other admin, never the last.
func admins(pool *pgxpool.Pool) (http.Handler, error) {
	store, err := pgidentity.New(pool)
	if err != nil {
		return nil, err
	}
	service, err := identity.New(identity.Config{Gateway: store, Invitations: store})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /admins/remove", service)
	mux.HandleFunc("GET /me", func(w http.ResponseWriter, r *http.Request) {
		user, answer, ok := service.Authenticate(r.Context(), r.Header)
		if !ok {
			answer.Respond(w, r) // 401 or 500, in the shape of all other answers
			return
		}
		identity.RespondJSON(w, http.StatusOK, map[string]any{"id": user})
	})
	return mux, nil
}

func Example_identity() {
	ctx := context.Background()
	pool := connect(ctx)
	defer pool.Close()
	handler, err := admins(pool)
	if err != nil {
		log.Fatal(err)
	}
	tokens, ids := twoAdmins(ctx, pool)
	for _, call := range []struct{ method, path, token, body string }{
		{"POST", "/admins/remove", tokens[0], fmt.Sprintf(`{"userId":%q}`, ids[0])},
		{"POST", "/admins/remove", tokens[0], fmt.Sprintf(`{"userId":%q}`, ids[1])},
		{"GET", "/me", tokens[1], ""},
	} {
		request := httptest.NewRequest(call.method, call.path, strings.NewReader(call.body))
		request.Header.Set("Authorization", "Bearer "+call.token)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		fmt.Print(recorder.Code, " ", recorder.Body)
	}
	// Output:
	// 403 {"code":"SELF_REVOKE_FORBIDDEN","error":"You cannot remove yourself."}
	// 200 {"revoked":true}
	// 401 {"code":"INVALID_TOKEN","error":"Your sign-in is no longer valid. Sign in again."}
}

type Push struct {
	Ref string `json:"ref"`
}

var Pushed = event.MustDefine[Push]("repository.pushed")

// hooks takes in what GitHub delivers: signed, byte for byte as sent, and one event out of each delivery.
func hooks(pool *pgxpool.Pool, secret string, repository uuid.UUID) (http.Handler, error) {
	verifier, err := webhook.NewVerifier(webhook.GitHub, []webhook.Secret{webhook.SecretText(secret)})
	if err != nil {
		return nil, err
	}
	return inbox.New(pool, verifier, inbox.Config{Source: "github", Draft: func(_ context.Context, d webhook.Delivery) (event.Draft, error) {
		push, err := inbox.Decode[Push](d)
		return Pushed.New("repository", repository, "", push), err
	}})
}

func Example_webhook() {
	ctx := context.Background()
	pool := connect(ctx)
	defer pool.Close()
	handler, err := hooks(pool, "It's a Secret to Everybody", uuid.New())
	if err != nil {
		log.Fatal(err)
	}
	signer, err := webhook.NewSigner(webhook.GitHub, webhook.SecretText("It's a Secret to Everybody"))
	if err != nil {
		log.Fatal(err)
	}
	signed := `{"ref":"refs/heads/main"}`
	for _, body := range []string{signed, signed, `{"ref":"refs/heads/evil"}`} {
		request := httptest.NewRequest(http.MethodPost, "/hooks/github", strings.NewReader(body))
		if err := signer.Sign(request.Header, "", time.Time{}, []byte(signed)); err != nil {
			log.Fatal(err)
		}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		fmt.Println(recorder.Code)
	}
	var events int
	err = pool.QueryRow(ctx, `SELECT count(*) FROM public.outbox_events WHERE event_type = 'repository.pushed'`).Scan(&events)
	fmt.Println(events, "event", err)
	// Output:
	// 200
	// 200
	// 401
	// 1 event <nil>
}

// connect brings the database up to date and opens a pool.
func connect(ctx context.Context) *pgxpool.Pool {
	databaseURL := os.Getenv("DATABASE_URL")
	if err := migrate.Up(ctx, databaseURL); err != nil {
		log.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY, cents bigint NOT NULL)`); err != nil {
		log.Fatal(err)
	}
	return pool
}

// waiting is true while an order waits for its handler.
func waiting(ctx context.Context, pool *pgxpool.Pool) (yes bool) {
	err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM public.outbox_events
		WHERE event_type = 'order.placed' AND status <> 'processed' AND pg_sleep(0.01) IS NOT NULL)`).Scan(&yes)
	if err != nil {
		log.Fatal(err)
	}
	return yes
}

// twoAdmins makes two admins and signs both in.
func twoAdmins(ctx context.Context, pool *pgxpool.Pool) (tokens [2]string, ids [2]uuid.UUID) {
	store, err := pgidentity.New(pool)
	if err != nil {
		log.Fatal(err)
	}
	for i, name := range []string{"Ann", "Bob"} {
		if ids[i], err = store.CreatePrincipal(ctx, pgidentity.Principal{Kind: pgidentity.Human, Name: name}); err != nil {
			log.Fatal(err)
		}
		if tokens[i], err = store.IssueToken(ctx, ids[i], time.Hour); err != nil {
			log.Fatal(err)
		}
	}
	if err := store.BootstrapAdmin(ctx, ids[0]); err != nil {
		log.Fatal(err)
	}
	if err := store.GrantAdmin(ctx, ids[0], ids[1], ""); err != nil {
		log.Fatal(err)
	}
	return tokens, ids
}
