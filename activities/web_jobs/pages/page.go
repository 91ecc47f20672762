// A job type's page in Go: it checks the signature, and works once for each key that is signed. Needs only Go.
// PORT=8087 ORIGIN=https://billing.internal WORKED=worked.txt SECRET=whsec_... go run page.go
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
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	secret = os.Getenv("SECRET")
	port   = cmp.Or(os.Getenv("PORT"), "8087")
	origin = cmp.Or(os.Getenv("ORIGIN"), "http://127.0.0.1:"+port) // as callers know it: behind a proxy, the proxy's
	path   = cmp.Or(os.Getenv("WORKED"), "worked.txt")
	// Yours is a table with a unique key, written in the transaction of the work. Here key and work are one line of a file.
	worked, _ = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	keys      = map[string]bool{}
	lock      sync.Mutex

	signature = regexp.MustCompile(`(\w+)=:([^:]*):`)
	inputs    = regexp.MustCompile(`(\w+)=(\([^)]*\)[^,]*)`)
	names     = regexp.MustCompile(`"([^"]+)"`)
	created   = regexp.MustCompile(`;created=(\d+)`)
)

// RFC 9421: a signature with our secret, of the last five minutes, covers the whole request.
func signed(r *http.Request, body []byte) bool {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	sum := sha256.Sum256(body)
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	given := map[string]string{}
	for _, each := range signature.FindAllStringSubmatch(r.Header.Get("signature"), -1) {
		given[each[1]] = each[2]
	}
	for _, input := range inputs.FindAllStringSubmatch(r.Header.Get("signature-input"), -1) {
		label, params := input[1], input[2]
		covered, mac := map[string]bool{}, hmac.New(sha256.New, key)
		for _, each := range names.FindAllStringSubmatch(strings.Split(params, ")")[0], -1) {
			value := strings.Join(r.Header.Values(each[1]), ", ")
			switch each[1] {
			case "@method":
				value = r.Method
			case "@target-uri":
				value = origin + r.RequestURI
			}
			covered[each[1]] = true
			fmt.Fprintf(mac, "\"%s\": %s\n", each[1], value)
		}
		fmt.Fprintf(mac, "\"@signature-params\": %s", params)
		whole := r.Header.Get("content-digest") == digest
		for _, name := range []string{"@method", "@target-uri", "content-digest", "idempotency-key", "perdure-job"} {
			whole = whole && covered[name]
		}
		fresh := false
		if made := created.FindStringSubmatch(params); made != nil {
			at, _ := strconv.ParseInt(made[1], 10, 64)
			fresh = time.Since(time.Unix(at, 0)).Abs() < 5*time.Minute
		}
		theirs, _ := base64.StdEncoding.DecodeString(given[label])
		if fresh && whole && hmac.Equal(mac.Sum(nil), theirs) {
			return true
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
		w.WriteHeader(400) // without it, 200: the job would count as done
	case !signed(r, body):
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
	if secret == "" {
		log.Fatal("SECRET is not set")
	}
	before, _ := os.ReadFile(path)
	for _, line := range strings.Split(string(before), "\n") {
		key, _, _ := strings.Cut(line, "\t")
		keys[key] = true
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, http.HandlerFunc(page)))
}
