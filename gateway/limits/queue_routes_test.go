package limits_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stint/internal/testkit"
)

const hostSite = `
http://HOST:PORT {
	bind 127.0.0.1
	handle_path /shop/* {
		basic_auth * {
			ann ` + hash + `
		}
		route {
			stint api
			header X-Site HOST
			reverse_proxy UPSTREAM
		}
	}
	handle /other/* {
		respond "another group" 404
	}
}
`

// startHosts starts a gateway with sites of two hosts.
func startHosts(t *testing.T, settings string, a, b *shop) *gateway {
	t.Helper()
	g := newGateway(t, map[string]string{"rules.yaml": orders, "keys": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"})
	_, port, _ := strings.Cut(g.address, ":")
	text := "{\n\tGLOBAL\n\tstint {\n\t\trules DIR/rules.yaml\n\t\tqueue_key_file DIR/keys\n" + settings + "\n\t}\n}\n"
	for host, s := range map[string]*shop{"a.test": a, "b.test": b} {
		text += strings.NewReplacer("HOST", host, "PORT", port, "UPSTREAM", s.Listener.Addr().String()).Replace(hostSite)
	}
	g.Write("Caddyfile", text)
	g.Run()
	return g
}

// at sends a request of ann to a host.
func (g *gateway) at(host, method, path, body string) reply {
	g.T.Helper()
	r, err := http.NewRequestWithContext(g.T.Context(), method, "http://"+g.address+path, strings.NewReader(body))
	testkit.Must(g.T, err)
	_, port, _ := strings.Cut(g.address, ":")
	r.Host = host + ":" + port
	r.SetBasicAuth("ann", "secret")
	return g.do(r)
}

// queued sends orders of ann to a host until one is queued, and returns it and its ID.
func (g *gateway) queued(host, name string) (body, id string) {
	g.T.Helper()
	for n := range 20 {
		body = fmt.Sprint(name, " ", n)
		if r := g.at(host, http.MethodPost, "/shop/orders", body); r.status == http.StatusAccepted {
			return body, strings.TrimPrefix(r.header.Get("Location"), "/.stint/queue/")
		}
	}
	g.T.Fatal("no order was queued")
	return "", ""
}

// An order goes to the site of its host, also where the path was changed before it was queued, and after a
// restart.
func TestQueueRoutes(t *testing.T) {
	a, b := newShop(t), newShop(t)
	g := startHosts(t, "queue DIR/queue.db", a, b)
	for host, s := range map[string]*shop{"a.test": a, "b.test": b} {
		body, _ := g.queued(host, "order for "+host)
		testkit.Must(t, g.Process.Kill())
		<-g.Ended
		g.Run()
		testkit.Until(t, body+" arrives", func() bool { return len(s.got(body)) > 0 })
		if got := s.got(body); got[0].path != "/orders" {
			t.Errorf("%s got %+v", host, got)
		}
	}
	if len(a.got("order for b.test")) > 0 {
		t.Error("an order went to another site")
	}
}

// With worker none the gateway sends nothing, and offers the orders in the stream.
func TestQueueWorkerNone(t *testing.T) {
	server, a := testkit.StartRedis(t), newShop(t)
	g := startHosts(t, "queue "+server.URL()+"\nworker none", a, a)
	body, id := g.queued("a.test", "order")
	testkit.Until(t, "the order is in the stream", func() bool {
		return strings.Contains(server.Do("XRANGE", "stint:{queue}:stream", "-", "+"), id)
	})
	if data := server.Do("HGET", "stint:{queue}:record:"+id, "data"); strings.Contains(data, body) || data == "" {
		t.Errorf("the record is not encrypted: %q", data)
	}
	server.Do("XADD", "stint:{queue}:results", "*", "id", id, "result", "done", "status", "202", "body", "by hand")
	testkit.Until(t, "the result is stored", func() bool {
		return strings.Contains(server.Do("HGETALL", "stint:{queue}:record:"+id), "done")
	})
	if len(a.got(body)) != 0 {
		t.Error("the gateway sent the order")
	}
	out, err := g.Command("queue", "show", id, "--address", g.admin).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "202 Accepted") || !strings.Contains(string(out), "by hand") {
		t.Errorf("show: %v\n%s", err, out)
	}
}

// The queue asks operators for their tokens as the service does.
func TestQueueOperators(t *testing.T) {
	a := newShop(t)
	a.status = http.StatusServiceUnavailable
	g := newGateway(t, map[string]string{"token": "the token of the operator\n"})
	g = startHosts(t, "queue DIR/queue.db\nadmin_token_file "+g.Dir+"/token", a, a)
	_, id := g.queued("a.test", "order")
	for _, path := range []string{"/stint/queue", "/stint/queue/" + id} {
		for token, want := range map[string]int{"": 401, "Bearer wrong": 401, "Bearer the token of the operator": 200} {
			if r := g.ask(http.MethodGet, path, "", "Authorization", token); r.status != want {
				t.Errorf("%s with %q: %d %s, want %d", path, token, r.status, r.body, want)
			}
		}
	}
}

const placesSite = `
{
	GLOBAL
	stint {
		rules DIR/rules.yaml
		queue DIR/queue.db
	}
}
http://127.0.0.1:1PORT {
	map {path} {backend} {
		/orders FIRST
		default 127.0.0.1:1
	}
	handle /early {
		stint_early api
		stint api
		reverse_proxy FIRST
	}
	@headed {
		path /headed
		header X-Api-Key *
	}
	handle @headed {
		stint api
		reverse_proxy FIRST
	}
	handle /.stint/* {
		stint api
	}
	handle_path /more/* {
		@orders path /orders
		route @orders {
			stint api
			respond "the wrong place"
		}
	}
	handle_path /shop/* {
		@orders path /orders
		route @orders {
			stint api
			reverse_proxy {backend}
		}
	}
}
http://127.0.0.1:2PORT {
	stint api
	reverse_proxy SECOND
}
`

const placesRules = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {requests: 1, per: 100ms, algorithm: token_bucket, excess: queue}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`

// Of two servers with one host an order goes to its own; of two routes that change the path, to the one that
// both forms of the path come to, or the only one for its path where a field is not stored; and what is before stint and sets placeholders has set them.
func TestQueuePlaces(t *testing.T) {
	first, second, other := newShop(t), newShop(t), testkit.Address(t)
	g := newGateway(t, map[string]string{"rules.yaml": placesRules})
	g.Write("Caddyfile", strings.NewReplacer("127.0.0.1:1PORT", g.address, "127.0.0.1:2PORT", other,
		"FIRST", first.Listener.Addr().String(), "SECOND", second.Listener.Addr().String()).Replace(placesSite))
	g.Run()
	for url, to := range map[string]*shop{
		g.address + "/shop/orders": first, g.address + "/early": first, g.address + "/headed": first, other + "/shop/orders": second,
	} {
		queued := ""
		for n := 0; n < 20 && queued == ""; n++ {
			body := fmt.Sprint(url, " ", n)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+url, strings.NewReader(body))
			testkit.Must(t, err)
			r.Header.Set("X-Api-Key", "secret")
			if g.do(r).status == http.StatusAccepted {
				queued = body
			}
		}
		testkit.Until(t, "the order for "+url+" arrives", func() bool { return len(to.got(queued)) > 0 })
	}
}
