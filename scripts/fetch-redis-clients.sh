#!/usr/bin/env bash
# Downloads Redis clients for Node and Java into .cache/clients, pinned: server/resp is tested with
# them. The client for Python is in tools/requirements.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

npm=https://registry.npmjs.org
maven=https://repo1.maven.org/maven2
# name, version, sha256: ioredis and what it needs
modules="
@ioredis/commands 1.10.0 a253eaa6685631c780de53b75fa24b0447acfd26dd74186a32820125976d2c50
cluster-key-slot 1.1.1 3c82e2750c3287508da2b3b043c53219eeaa4ba5fc27d2e50edb4c3ffb0edb7c
debug 4.4.3 89c1ac9c946ee8905a875837114528e97eeae35e03be3190584b2216af43e4a7
denque 2.1.0 3c904c4fb2d3f496eea55516712dad1cda62963001d44b11d93b73be7e25140e
ioredis 5.11.1 56b4e71ea1c54d22161a83c5d941f22c9ea53f23ecfbf332e33b7a1157b0f22b
ms 2.1.3 f6616e15e530ed552f9daa2d3ce71963947c6bc7c98c9b64fd3e673fd02622c6
redis-errors 1.2.0 e68e10e611083788a7dcb4371334de77c38704f4c8d437e4f95987312ce0a8f4
redis-parser 3.0.0 d2232615ea4afeec9ca100650fbd947e569d2c396df7e78687517387da44bd4c
standard-as-callback 2.1.0 d769cc0470d53b86d42649ad5e48bd7119cddec05c1b78f5fdd7d65797b73a4f
"
# path, version, sha256: Jedis and what it needs
jars="
redis/clients/jedis 5.2.0 dd4fbda2c103f319ab495adb2bc1906139840746cfd4c66b27710d1af98382d4
org/apache/commons/commons-pool2 2.12.0 6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b
org/slf4j/slf4j-api 2.0.16 a12578dde1ba00bd9b816d388a0b879928d00bab3c83c240f7013bf4196c579a
org/slf4j/slf4j-nop 2.0.16 deca6c04ed35515a0a911fa44c0e836bee92c0c59d2e8fa9bab8ffbc464a9ba7
com/google/code/gson/gson 2.11.0 57928d6e5a6edeb2abd3770a8f95ba44dce45f3b23b7a9dc2b309c581552a78b
org/json/json 20240303 3cf6cd6892e32e2b4c1c39e0f52f5248a2f5b37646fdfbb79a66b46b618414ed
"

dir=.cache/clients
stamp=$dir/.installed
if printf '%s%s' "$modules" "$jars" | cmp -s - "$stamp"; then
  exit 0
fi
echo "downloading Redis clients into $dir"
rm -rf "$dir"
mkdir -p "$dir/java"

# get downloads a URL into a file, and checks its SHA-256.
get() {
  curl -sSfL --retry 3 -o "$2" "$1"
  echo "$3  $2" | sha256sum -c --quiet
}
while read -r name version sum; do
  [ -n "$name" ] || continue
  folder=$dir/node_modules/$name
  mkdir -p "$folder"
  get "$npm/$name/-/${name##*/}-$version.tgz" "$dir/package.tgz" "$sum"
  tar -xzf "$dir/package.tgz" -C "$folder" --strip-components=1
done <<<"$modules"
rm "$dir/package.tgz"
while read -r path version sum; do
  [ -n "$path" ] || continue
  jar=$(basename "$path")-$version.jar
  get "$maven/$path/$version/$jar" "$dir/java/$jar" "$sum"
done <<<"$jars"
printf '%s%s' "$modules" "$jars" >"$stamp"
