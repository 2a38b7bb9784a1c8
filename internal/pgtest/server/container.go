package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
)

// DefaultImage is what a container runs unless PGRAIL_TEST_IMAGE is set.
const DefaultImage = "postgres:17"

// A container is a server in Docker. testcontainers' reaper removes it after the
// end of the process, unless TESTCONTAINERS_RYUK_DISABLED is set.
type container struct {
	*postgres.PostgresContainer
	url  *url.URL
	kept atomic.Bool
}

// startContainer turns testcontainers' panics into errors: some of its ways of
// not finding Docker are panics.
func startContainer(ctx context.Context, o Options) (s Server, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("testcontainers: %v", p)
		}
	}()
	image := os.Getenv(EnvImage)
	if image == "" {
		image = DefaultImage
	}
	log.SetDefault(log.NewNoopLogger()) // it would describe Docker and each step on standard error
	custom := []testcontainers.ContainerCustomizer{postgres.BasicWaitStrategies()}
	for name, value := range o.Settings {
		custom = append(custom, testcontainers.WithCmdArgs("-c", name+"="+value))
	}
	c, err := postgres.Run(ctx, image, custom...)
	if err == nil {
		s, err = locate(ctx, c)
	}
	if err != nil {
		return nil, errors.Join(err, testcontainers.TerminateContainer(c))
	}
	return s, nil
}

func locate(ctx context.Context, c *postgres.PostgresContainer) (Server, error) {
	text, err := c.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	return &container{PostgresContainer: c, url: u}, check(ctx, text)
}

func (*container) Kind() Kind { return KindDocker }

func (c *container) URL(database string) string {
	u := *c.url
	u.Path = "/" + database
	return u.String()
}

// Keep cannot hold off testcontainers' reaper.
func (c *container) Keep(time.Duration) string {
	c.kept.Store(true)
	return fmt.Sprintf("it goes with its container, at once with: docker rm -f %.12s", c.GetContainerID())
}

func (c *container) Close() error {
	if c.kept.Load() {
		return nil
	}
	return testcontainers.TerminateContainer(c.PostgresContainer)
}
