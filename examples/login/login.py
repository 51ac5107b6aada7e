# A login that nobody can guess through: Stint is asked before the password is checked, and gets the status.
import contextlib, json, os, sys, urllib.request

def ask(path, body):
    url = os.environ.get("STINT", "http://127.0.0.1:8080") + path
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=2))

# known: a signed cookie proves that this user has signed in from this machine. address: of IPv6 its /64.
def login(user, address, known, password_is_right):
    name, ip = {"key": "user", "value": user}, {"key": "remote_address", "value": address}
    lists = [[name], [name, ip], [ip], [{"key": "site", "value": "login"}]]
    if known:
        lists.append([{"key": "known", "value": user}])
    verdict = ask("/v1/check", {"domain": "login", "reserve": True, "descriptors": [{"entries": e} for e in lists]})
    if not verdict["allowed"]:
        return 429
    status = 200 if password_is_right(user) else 401
    with contextlib.suppress(OSError):  # without it the try stays charged
        ask("/v1/settle", {"reservation": verdict["reservation"], "status": status})
    return status

user, address, known, password = sys.argv[1:]
print(login(user, address, known == "known", lambda user: password == "correct horse"))
