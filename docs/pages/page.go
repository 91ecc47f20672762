// A job type's page in Go: it works once for each Idempotency-Key. Needs nothing but Go.
// PORT=8087 WORKED=worked.txt SECRET=whsec_... go run page.go
package main

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	secret = os.Getenv("SECRET")
	path   = cmp.Or(os.Getenv("WORKED"), "worked.txt")
	// Yours is a table with a unique key, written in the transaction of the work. Here key and work are one line of a file.
	worked, _ = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	keys      = map[string]bool{}
	lock      sync.Mutex
)

// Standard Webhooks: one of the signatures is ours, and it was made within the last five minutes.
func signed(header http.Header, body []byte) bool {
	madeAt, _ := strconv.ParseInt(header.Get("webhook-timestamp"), 10, 64)
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.%s", header.Get("webhook-id"), madeAt, body)
	ours := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, each := range strings.Fields(header.Get("webhook-signature")) {
		if hmac.Equal([]byte(ours), []byte(each)) {
			return time.Since(time.Unix(madeAt, 0)).Abs() < 5*time.Minute
		}
	}
	return false
}

func page(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var job struct {
		Invoice *int
		Seconds float64
	}
	w.Header().Set("content-type", "application/json")
	switch key := r.Header.Get("idempotency-key"); {
	case err != nil:
		return
	case secret != "" && !signed(r.Header, body):
		w.WriteHeader(401)
		fmt.Fprint(w, `{"why": "wrong signature"}`)
	case key == "" || json.Unmarshal(body, &job) != nil || job.Invoice == nil:
		w.WriteHeader(422) // a definitive no: the job ends as failed
		fmt.Fprint(w, `{"why": "no key, or no invoice"}`)
	default:
		work(key, body)
		time.Sleep(time.Duration(job.Seconds * float64(time.Second)))
		fmt.Fprintf(w, `{"invoice": %d, "sent": true}`, *job.Invoice)
	}
}

func work(key string, body []byte) {
	lock.Lock()
	defer lock.Unlock()
	if keys[key] {
		fmt.Println("dropped", key)
		return
	}
	if _, err := fmt.Fprintf(worked, "%s\t%s\n", key, body); err != nil {
		log.Fatal(err)
	}
	keys[key] = true
}

func main() {
	before, _ := os.ReadFile(path)
	for _, line := range strings.Split(string(before), "\n") {
		key, _, _ := strings.Cut(line, "\t")
		keys[key] = true
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+cmp.Or(os.Getenv("PORT"), "8087"), http.HandlerFunc(page)))
}
