"""A packed model on the hub."""

import re
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

from candi.base.errors import UserError


def check_name(name: str) -> None:
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise UserError(f"{name!r} is no name on the hub; write it as OWNER/NAME.")


def push(folder: Path, name: str, private: bool = False) -> str:
    """Upload the files of a packed model as OWNER/NAME, which is made if it is not there. Returns its address."""
    check_name(name)
    api = HfApi(library_name="candi")
    try:
        place = api.create_repo(name, private=private or None, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message="Upload by candi export")
    except (HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"{name} cannot be written on the hub ({reason}); the packed model is in {folder}. Log in with hf auth "
            "login, as somebody who may write there, and run the same command again."
        ) from None
    return str(place)
