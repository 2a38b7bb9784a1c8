package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// client calls the shop as anybody else would: over HTTP.
type client struct {
	base string
	http http.Client
}

func newClient(base string) *client { return &client{base, http.Client{Timeout: time.Minute}} }

// answer is a status and the code that failures carry.
type answer struct {
	Status int
	Code   string `json:"code"`
}

func (a answer) String() string {
	if a.Code == "" {
		return fmt.Sprint(a.Status)
	}
	return fmt.Sprintf("%d %s", a.Status, a.Code)
}

// call sends a body as JSON to a route ("POST /signin"), with an access token if there is one, and reads a success into out.
func (c *client) call(ctx context.Context, route, token string, in, out any) (answer, error) {
	method, path, _ := strings.Cut(route, " ")
	body, err := json.Marshal(in)
	if err != nil {
		return answer{}, err
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return c.send(request, out)
}

func (c *client) send(request *http.Request, out any) (answer, error) {
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	a := answer{Status: response.StatusCode}
	if response.StatusCode < http.StatusMultipleChoices && out != nil {
		return a, json.NewDecoder(response.Body).Decode(out)
	}
	_ = json.NewDecoder(response.Body).Decode(&a) // some failures are plain text
	return a, nil
}
