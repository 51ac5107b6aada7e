<?php // A login that nobody can guess through: Stint is asked before the password is checked, and gets the status.

function ask(string $path, array $body): array {
    $http = ['method' => 'POST', 'header' => 'Content-Type: application/json', 'content' => json_encode($body), 'timeout' => 2];
    $answer = file_get_contents((getenv('STINT') ?: 'http://127.0.0.1:8080') . $path, false, stream_context_create(['http' => $http]));
    return $answer === false ? throw new RuntimeException("no answer of $path") : json_decode($answer, true);
}

// $known: a signed cookie proves that this user has signed in from this machine. $address: of IPv6 its /64.
function login(string $user, string $address, bool $known, callable $passwordIsRight): int {
    [$name, $ip] = [['key' => 'user', 'value' => $user], ['key' => 'remote_address', 'value' => $address]];
    $lists = [[$name], [$name, $ip], [$ip], [['key' => 'site', 'value' => 'login']]];
    if ($known) $lists[] = [['key' => 'known', 'value' => $user]];
    $descriptors = array_map(fn($entries) => ['entries' => $entries], $lists);
    $verdict = ask('/v1/check', ['domain' => 'login', 'reserve' => true, 'descriptors' => $descriptors]);
    if (!$verdict['allowed']) return 429;
    $status = $passwordIsRight($user) ? 200 : 401;
    try { ask('/v1/settle', ['reservation' => $verdict['reservation'], 'status' => $status]); }
    catch (RuntimeException) {} // without it the try stays charged
    return $status;
}

[, $user, $address, $known, $password] = $argv;
echo login($user, $address, $known === 'known', fn() => $password === 'correct horse'), "\n";
