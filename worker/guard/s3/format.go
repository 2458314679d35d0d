package s3

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/leasehold-io/leasehold/worker/guard"
)

const (
	magic = "leasehold-fence/1"
	// maxHeader bounds the first line.
	maxHeader = 128
)

// seal puts the line with the token before the body.
func seal(token guard.Token, random string, body []byte) []byte {
	return append(fmt.Appendf(nil, "%s %s %s\n", magic, token, random), body...)
}

// open takes an object apart.
func open(content []byte) (mark guard.Token, body []byte, err error) {
	line, body, found := bytes.Cut(content, []byte("\n"))
	fields := strings.Split(string(line[:min(len(line), maxHeader)]), " ")
	if !found || len(fields) != 3 || fields[0] != magic {
		return 0, nil, errors.New("it was not written by a guard: its first line is another")
	}
	if len(body) > maxBody {
		return 0, nil, fmt.Errorf("it has more than %d bytes", maxBody)
	}
	mark, err = guard.Parse(fields[1])
	return mark, body, err
}
