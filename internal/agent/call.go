package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// Call makes one request to an agent's socket, for commands whose image has nothing that can. args are the method, the path, and
// the body, if there is one; "-" reads it from in. What comes back goes to out; a problem is an error too.
func Call(socketPath string, args []string, in io.Reader, out io.Writer) error {
	if socketPath == "" {
		return errors.New("LEASEHOLD_SOCKET is not set: this is no worker of a LeasedTask")
	}
	var body io.Reader = http.NoBody
	switch {
	case len(args) > 2 && args[2] == "-":
		body = io.LimitReader(in, maxResultBody+1) // one more than is taken
	case len(args) > 2:
		body = strings.NewReader(args[2])
	}
	request, err := http.NewRequestWithContext(context.Background(), args[0], "http://agent"+args[1], body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socketPath)
		},
		DisableKeepAlives: true,
	}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it is read below, or does not matter
	if _, err := io.Copy(out, response.Body); err != nil {
		return err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("the agent answered %s", response.Status)
	}
	return nil
}
