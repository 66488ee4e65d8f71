# Installs SkillOpt Sleep for agent programs: ./install.ps1 claude codex ...
# Takes it away again:                        ./install.ps1 -Uninstall claude codex ...
# $env:PYTHON names the interpreter (3.10 or newer); without it, the first that fits is used.
param(
    [switch]$Uninstall,
    [Parameter(ValueFromRemainingArguments = $true)][string[]]$Agents
)
$ErrorActionPreference = "Stop"
if (-not $Agents) {
    Write-Error "usage: install.ps1 [-Uninstall] AGENT... (claude codex copilot cursor devin gemini openclaw opencode qwen)"
    exit 2
}

function Test-Python([string]$Program, [string]$Code) {
    try { & $Program -c $Code 2>$null | Out-Null; return $LASTEXITCODE -eq 0 } catch { return $false }
}
$fits = "import sys; sys.exit(sys.version_info < (3, 10))"
$has = "import skillopt_sleep"

$python = $env:PYTHON
if (-not $python) {
    $found = @("python", "python3", "py") | Where-Object { (Get-Command $_ -ErrorAction SilentlyContinue) -and (Test-Python $_ $fits) }
    $python = @($found | Where-Object { Test-Python $_ $has }) + @($found) | Select-Object -First 1
}
if (-not $python -or -not (Test-Python $python $fits)) {
    Write-Error "Python 3.10 or newer is needed; name it in `$env:PYTHON"
    exit 1
}

if (-not (Test-Python $python $has)) {
    $root = (Resolve-Path (Join-Path $PSScriptRoot "../..")).Path
    if (-not (Test-Path (Join-Path $root "pyproject.toml"))) {
        Write-Error "$python does not have skillopt; install it first, or name another in `$env:PYTHON"
        exit 1
    }
    $base = if ($env:SKILLOPT_SLEEP_HOME) { $env:SKILLOPT_SLEEP_HOME } else { Join-Path $HOME ".skillopt-sleep" }
    & $python -m venv (Join-Path $base "venv")
    $python = Join-Path $base "venv/Scripts/python.exe"
    if (-not (Test-Python $python $has)) { & $python -m pip install --quiet "$root[sleep]" }
}
$action = if ($Uninstall) { "uninstall" } else { "install" }
& $python -m skillopt_sleep $action @Agents
exit $LASTEXITCODE
