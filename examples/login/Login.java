// A login that nobody can guess through: Stint is asked before the password is checked, and gets the status.
import java.net.URI;
import java.net.http.*;
import java.time.Duration;
import java.util.function.Predicate;

class Login {
    static final HttpClient CLIENT = HttpClient.newHttpClient();

    static String ask(String path, String body) throws Exception {
        var url = URI.create(System.getenv().getOrDefault("STINT", "http://127.0.0.1:8080") + path);
        var request = HttpRequest.newBuilder(url).timeout(Duration.ofSeconds(2)).POST(HttpRequest.BodyPublishers.ofString(body)).build();
        var answer = CLIENT.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) throw new IllegalStateException(path + ": " + answer.statusCode());
        return answer.body();
    }

    // known: a signed cookie proves that this user has signed in from this machine. address: of IPv6 its /64.
    // A name has letters, digits, dots and @ alone here; other texts need a library that writes JSON.
    static int login(String user, String address, boolean known, Predicate<String> passwordIsRight) throws Exception {
        if (!user.matches("[a-z0-9.@]{1,64}")) return 400;
        var entry = "{\"key\":\"%s\",\"value\":\"%s\"}";
        String name = entry.formatted("user", user), ip = entry.formatted("remote_address", address), list = "{\"entries\":[%s]}";
        var lists = String.join(",", list.formatted(name), list.formatted(name + "," + ip), list.formatted(ip), list.formatted(entry.formatted("site", "login")));
        if (known) lists += "," + list.formatted(entry.formatted("known", user));
        var verdict = ask("/v1/check", "{\"domain\":\"login\",\"reserve\":true,\"descriptors\":[" + lists + "]}");
        if (!verdict.startsWith("{\"allowed\":true")) return 429;
        var status = passwordIsRight.test(user) ? 200 : 401;
        var reservation = verdict.replaceAll("(?s).*\"reservation\":\"([^\"]*)\".*", "$1");
        try { ask("/v1/settle", "{\"reservation\":\"" + reservation + "\",\"status\":" + status + "}"); }
        catch (java.io.IOException | IllegalStateException e) { } // without it the try stays charged
        return status;
    }

    public static void main(String[] a) throws Exception {
        System.out.println(login(a[0], a[1], a[2].equals("known"), user -> a[3].equals("correct horse")));
    }
}
