# Sourced by `build`, `check` and `test`, in this folder.
version=1.0.0
mkdir --parents ../../target/sdks/kotlin
output="$(cd ../../target/sdks/kotlin && pwd)"

# npm writes .package-lock.json last: if it is newer than the lock file, the packages are installed.
install_tools() {
    if [[ ! node_modules/.package-lock.json -nt package-lock.json ]]; then
        npm ci --no-audit --no-fund --ignore-scripts --loglevel=error
    fi
}

# Runs a command unless it succeeded before with the same files and tools: once NAME FILE_OR_FOLDER… -- COMMAND…
once() {
    local name="$1" inputs=(package-lock.json tools.sh build check test) digest
    shift
    while [[ "$1" != -- ]]; do
        inputs+=("$1")
        shift
    done
    shift
    digest="$(javac -version 2>&1; find "${inputs[@]}" -type f -print0 | sort --zero-terminated | xargs -0 sha256sum)"
    if [[ -f "$output/$name.inputs" && "$(< "$output/$name.inputs")" == "$digest" ]]; then return; fi
    rm --force "$output/$name.inputs"
    "$@"
    printf '%s\n' "$digest" > "$output/$name.inputs"
}

# Runs a compiler: kotlin PACKAGE ARGUMENT… The options shorten a single run.
kotlin() {
    JAVA_OPTS='-Xmx1g -XX:TieredStopAtLevel=1 -XX:+UseSerialGC' "node_modules/$1/bin/kotlinc" -no-reflect "${@:2}"
}

# The Java classes of a folder: compile_java FOLDER TARGET
compile_java() {
    rm --recursive --force "$2"
    find "$1" -name '*.java' -print0 | xargs -0 javac --release 8 -Xlint:all,-options -Werror -d "$2"
}

compile_stubs() {
    compile_java android-stubs "$output/stubs"
}
