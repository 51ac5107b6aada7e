package dashboard

import (
	"os"
	"regexp"
	"testing"

	"stint/internal/testkit"
	"stint/server/access"
)

func TestLook(t *testing.T) {
	f := startFixture(t, &access.Guard{})
	b := testkit.StartBrowser(t)
	tab := b.Open(f.URL + "/")
	for _, view := range []string{"overview", "rules", "rules/shop/shop%2Fuser", "keys?entries=user%3D42&domain=shop", "coordination?entries=user%3D42&domain=shop", "records", "audit", "denials", "text"} {
		tab.Size(1280, 900, false)
		tab.Run("location.hash='#/"+view+"'", nil)
		tab.Until("Number(document.body.dataset.frames) >= 30 && document.querySelector('main').children.length > 0")
		tab.Run("new Promise(r=>setTimeout(r,400))", nil)
		name := "/tmp/shots/" + regexp.MustCompile("\\W+").ReplaceAllString(view, "_")
		testkit.Must(t, os.WriteFile(name+".png", tab.Screenshot(), 0o600))
		tab.Size(400, 800, true)
		tab.Run("new Promise(r=>setTimeout(r,200))", nil)
		testkit.Must(t, os.WriteFile(name+"-400.png", tab.Screenshot(), 0o600))
	}
	t.Log(tab.Console())
}
