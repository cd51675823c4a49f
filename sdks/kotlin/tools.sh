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
