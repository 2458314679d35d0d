package outage

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestTheGatewayAnswersAllAtOnceAndThenEachByTheTime(t *testing.T) {
	g, err := startGateway(Load{Listen: "127.0.0.1:0", Tasks: 2, Length: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.server.Close() }()
	call := func(task string, attempt int) int {
		response, err := http.Get(fmt.Sprintf("%s/?task=%s&attempt=%d", g.url, task, attempt))
		if err != nil {
			t.Error(err)
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	first := make(chan int, 1)
	go func() { first <- call("a", 1) }()
	select {
	case code := <-first:
		t.Fatalf("%d while another is still to call", code)
	case <-time.After(200 * time.Millisecond):
	}
	if code := call("b", 1); code != http.StatusServiceUnavailable {
		t.Errorf("the last: %d", code)
	}
	if code := <-first; code != http.StatusServiceUnavailable {
		t.Errorf("the first: %d", code)
	}
	time.Sleep(300 * time.Millisecond)
	if code := call("a", 2); code != http.StatusOK {
		t.Errorf("after the outage: %d", code)
	}
	begin, calls := g.seen()
	if len(calls) != 3 || calls[0].Task != "a" || calls[2].Attempt != 2 || calls[0].At.After(begin) {
		t.Errorf("began %s, calls %+v", begin, calls)
	}
	if code := call("", 1); code != http.StatusBadRequest {
		t.Errorf("a call of nobody: %d", code)
	}
}
