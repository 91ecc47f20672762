// The order in River. `with_river migrate` prepares the database, `with_river work` works, and `with_river take FIRST
// COUNT` takes orders.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// Order is the argument of the job.
type Order struct {
	ID int64 `json:"id"`
}

// Kind names the job.
func (Order) Kind() string { return "charge_order" }

// ChargeOrder charges the card, and completes the job in the transaction that writes the state.
type ChargeOrder struct {
	river.WorkerDefaults[Order]
	pool *pgxpool.Pool
}

// Work does one attempt. The key is the same in each.
func (w *ChargeOrder) Work(ctx context.Context, job *river.Job[Order]) error {
	found := false
	if os.Getenv("SHOP_SIDE") == "look-up" {
		var err error
		if found, err = find(ctx, job.Args.ID); err != nil {
			return err
		}
	}
	if !found {
		if err := charge(ctx, job.Args.ID, fmt.Sprintf("order-%d", job.Args.ID)); err != nil {
			return err
		}
	}
	if err := at(ctx, "before-write"); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "update orders set state = 'charged' where id = $1", job.Args.ID); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// take commits the order with its job.
func take(ctx context.Context, pool *pgxpool.Pool, client *river.Client[pgx.Tx], id int64) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into orders (id) values ($1)", id); err != nil {
			return err
		}
		_, err := client.InsertTx(ctx, tx, Order{ID: id}, nil)
		return err
	})
	if err != nil {
		return err
	}
	return at(ctx, "after-commit")
}

func work(ctx context.Context, pool *pgxpool.Pool) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &ChargeOrder{pool: pool})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 20}},
		Workers:              workers,
		JobTimeout:           20 * time.Second,
		RescueStuckJobsAfter: 30 * time.Second, // an hour by default
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return client.Stop(context.Background())
}

// What bench/peers/shop.py and bench/peers/app.py are to the other tools, from here on.

func ask(ctx context.Context, timeout time.Duration, method, path, key string, body any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	data, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, method, os.Getenv("SHOP_URL")+path, bytes.NewReader(data))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNotFound {
		return 0, fmt.Errorf("%s %s: %s", method, path, answer.Status)
	}
	return answer.StatusCode, nil
}

func at(ctx context.Context, place string) error {
	_, err := ask(ctx, 600*time.Second, http.MethodPost, "/at/"+place, "", nil)
	return err
}

func charge(ctx context.Context, order int64, key string) error {
	if err := at(ctx, "before-request"); err != nil {
		return err
	}
	body := map[string]int64{"order": order}
	if _, err := ask(ctx, 5*time.Second, http.MethodPost, "/charges", key, body); err != nil {
		return err
	}
	return at(ctx, "after-reply")
}

func find(ctx context.Context, order int64) (bool, error) {
	status, err := ask(ctx, 5*time.Second, http.MethodGet, fmt.Sprintf("/charges/%d", order), "", nil)
	return status == http.StatusOK, err
}

func takeAll(ctx context.Context, pool *pgxpool.Pool, first, count int64) error {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		return err
	}
	room, failed, all := make(chan struct{}, 20), make(chan error, count), sync.WaitGroup{}
	for id := first; id < first+count; id++ {
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			if err := take(ctx, pool, client, id); err != nil {
				failed <- err
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	return err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := pgxpool.ParseConfig(os.Getenv("SHOP_DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	switch os.Args[1] {
	case "migrate":
		err = migrate(ctx, pool)
	case "work":
		err = work(ctx, pool)
	case "take":
		var first, count int64
		if first, err = strconv.ParseInt(os.Args[2], 10, 64); err == nil {
			if count, err = strconv.ParseInt(os.Args[3], 10, 64); err == nil {
				err = takeAll(ctx, pool, first, count)
			}
		}
	default:
		err = fmt.Errorf("not migrate, work or take: %s", os.Args[1])
	}
	if err != nil {
		log.Fatal(err)
	}
}
