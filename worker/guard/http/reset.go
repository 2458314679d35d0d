package httpguard

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// maxOrder bounds the body of a reset.
const maxOrder = 8 << 10

// ResetHandler lets an operator lower a mark: POST {"resource": "...", "to": "17", "reason": "..."}. Serve it where workers cannot reach it.
// Authorize says who is asking, or refuses; what it returns goes into the audit.
func ResetHandler(ledger *Ledger, now func() time.Time, authorize func(*http.Request) (by string, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by, err := authorize(r)
		if err != nil || by == "" {
			http.Error(w, "not allowed", http.StatusForbidden)
			return
		}
		if r.Method != http.MethodPost {
			http.Error(w, "POST a reset", http.StatusMethodNotAllowed)
			return
		}
		var order struct {
			Resource string      `json:"resource"`
			To       guard.Token `json:"to,string"`
			Reason   string      `json:"reason"`
		}
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrder))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&order); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		from, err := ledger.Reset(r.Context(), Reset{Resource: order.Resource, To: order.To, By: by, Reason: order.Reason, At: now()})
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"from": from.String(), "to": order.To.String()})
	})
}
